/** The folder of catalog files, which a brain imports when it begins. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { serve, testFolder } from './server-process.ts';
import { Client, eventually } from './site-client.ts';

let database: Promise<TestServer> | undefined;
after(async () => (await database)?.stop());

const STORES: Record<string, () => Promise<object>> = {
  journal: async () => ({}),
  mariadb: async () => {
    database ??= testMariaDb();
    return { store: 'mariadb', mariadb: { url: await (await database).database() } };
  },
};

for (const [name, store] of Object.entries(STORES)) {
  test(`[ORCH-1141] models of the folder are in the catalog after the start, what is wrong is left out, and nothing is written twice (${name})`, async (t) => {
    const folder = testFolder(t);
    const files = join(folder, 'catalog');
    mkdirSync(files);
    const model = (id: string): string => `- {model_id: ${id}, model_ref: "demo:${id}", size_bytes: 1}\n`;
    writeFileSync(join(files, 'two.yaml'), model('one') + model('two'));
    writeFileSync(
      join(files, 'three.json'),
      '{"model_id": "three", "model_ref": "demo:three", "size_bytes": 1}',
    );
    writeFileSync(
      join(files, 'bad.yaml'),
      '- {model_id: bad, model_ref: "file:/../../etc/passwd", size_bytes: 1}',
    );
    writeFileSync(join(files, 'broken.yaml'), '{');
    writeFileSync(join(files, 'notes.txt'), model('no'));
    const config = { ...(await store()), orchestrator: { catalog_path: files } };
    const data = join(folder, 'data');
    const models = async (url: string): Promise<{ model_id: string; updated_at: number }[]> =>
      (await new Client(url).done('GET', '/v2/catalog/models')).models;
    const first = await serve(t, { data, config });
    const imported = await eventually('three are there', async () => {
      const all = await models(first.url);
      return all.length === 3 && all;
    });
    assert.deepEqual(
      imported.map(({ model_id }) => model_id),
      ['one', 'three', 'two'],
    );
    await first.kill();
    const second = await serve(t, { data, config });
    await eventually('it leads', async () => (await models(second.url)).length === 3);
    assert.deepEqual(await models(second.url), imported);
  });
}
