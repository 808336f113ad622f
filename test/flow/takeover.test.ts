/** Two brains on one database: the later one leads, and nothing of the earlier one lands any more. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type Running, start as startCommand } from './cli-process.ts';
import { dataOf, onStores, refusalOf, start, turns } from './flow-kit.ts';
import { testFolder } from './server-process.ts';
import { Stage } from './stage.ts';

onStores(
  ['mariadb'],
  'a brain that another one has followed answers nothing more, and leaves no trace',
  async (t, data) => {
    const stage = new Stage({ slots: 2 });
    t.after(() => stage.endAll());
    const first = await start(t, { data, backends: [stage] });
    await first.submit({ job_id: 'ours' });
    await stage.startedCount(1);
    while ((await first.get('ours')).state !== 'running') await turns(1);
    const second = await start(t, { data, backends: [stage] });
    const refused = await refusalOf(() => first.submit({ job_id: 'late' }));
    assert.equal(refused.code, 'FENCED');
    assert.equal((await refusalOf(() => first.get('ours'))).code, 'FENCED');
    assert.equal((await refusalOf(() => second.get('late'))).code, 'NOT_FOUND');
    stage.end('ours:1');
    assert.equal((await second.wait('ours')).state, 'succeeded');
    assert.deepEqual(stage.started, ['ours:1'], 'what ran goes on under the second one');
  },
);

/** `orchd up` on a database. */
async function serveOn(t: TestContext, database: string): Promise<Running & { readonly url: string }> {
  const env = { ORCHD_STORE: 'mariadb', ORCHD_MARIADB_URL: database };
  const server = startCommand(['up', '--port', '0', '--data', join(testFolder(t), 'data')], { env });
  t.after(async () => {
    server.child.kill('SIGKILL');
    await server.ended;
  });
  const banner = await server.saw('err', /press Ctrl-C to stop/);
  return { ...server, url: /listens on (\S+)/.exec(banner)![1]! };
}

test('a server that another one has followed ends when it would write, and says why', async (t) => {
  const database = await dataOf(t, 'mariadb');
  const first = await serveOn(t, database);
  const early = new OrchdClient({ url: first.url });
  await early.submit({ job_id: 'kept' });
  const second = await serveOn(t, database);
  await assert.rejects(early.submit({ job_id: 'late' }), { code: 'FENCED' });
  const { code, out, err } = await first.ended;
  assert.equal(code, 1);
  assert.match(err, /A newer leader has taken over/);
  assert.equal((out + err).includes('socket='), false, 'the address of the database is not shown');
  const client = new OrchdClient({ url: second.url });
  assert.equal((await client.get('kept')).job_id, 'kept');
  await assert.rejects(client.get('late'), { code: 'NOT_FOUND' });
});
