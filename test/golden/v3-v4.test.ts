/**
 * Stores of two versions, a journal and a database each, are opened with all that they hold. v3, which commit 8c97ab9
 * wrote, has asks and workers of version 2, causes as data, and MariaDB tables of version 4. v4 has attempts of version 2.
 * The happenings are those of v2, except that in v4 the failed try of the job "retried" has used tokens.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { examine } from '../../src/index.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { assertContents } from './v2-contents.ts';
import { copyOfJournal, dumpOfTables, goldenFolder, onBothStores, open } from './v2-kit.ts';

const V4_USAGE = {
  prompt_tokens: 12,
  completion_tokens: 3,
  cache_read_tokens: 4,
  cache_write_tokens: 3,
  reasoning_tokens: 1,
};

for (const { version, attempt, usage } of [
  { version: 'v3', attempt: 1, usage: undefined },
  { version: 'v4', attempt: 2, usage: V4_USAGE },
] as const) {
  const name = `version ${version.slice(1)}`;


  onBothStores(
    `${name}: every job and every record is there as it was, also at a second opening`,
    async (t, place) => {
      const first = await open(t, place, { version });
      await assertContents(first);
      const { attempts } = await first.brain.get('retried');
      assert.deepEqual(attempts[0]?.usage, usage);
      await first.brain.checkpoint();
      await first.brain.stop();
      await assertContents(await open(t, place, { version }));
    },
    version,
  );

  test(`${name}: the doctor finds the journal healthy, before and after this program has used it`, async (t) => {
    const folder = copyOfJournal(version);
    const { disk } = realEnv();
    const damage = async () => (await examine(disk, folder)).findings.filter(({ verdict }) => verdict === 'bad');
    assert.deepEqual(await damage(), []);
    const { brain } = await open(t, folder, { version });
    await brain.submit({ payload: 'new' });
    await brain.checkpoint();
    await brain.stop();
    assert.deepEqual(await damage(), []);
  });

  test(`${name}: the data hold the record versions that were current, and every kind of record`, () => {
    const dump = dumpOfTables(version);
    const kinds = new Set([...dump.matchAll(/^\(\d+, '[^']+', '(\w+):([^']+)', '/gm)].map(([, kind]) => kind));
    const wanted = 'ask job attempt failure brain lease model session pool worker demand limits spent';
    assert.deepEqual([...kinds].sort(), wanted.split(' ').sort());
    const files = readdirSync(join(goldenFolder(version), 'journal'), { recursive: true, encoding: 'utf8' });
    assert.ok(!files.some((name) => /history|spare|lock/.test(name)));
    const log = files
      .filter((name) => name.endsWith('.log'))
      .map((name) => readFileSync(join(goldenFolder(version), 'journal', name), 'utf8'))
      .join('');
    const versions = new Set([...log.matchAll(/\["(\w+)","[^"]+",\{"v":(\d+)/g)].map(([, kind, v]) => `${kind} ${v}`));
    for (const each of ['ask 2', 'worker 2', 'job 1', `attempt ${attempt}`, 'brain 1', 'session 1'])
      assert.ok(versions.has(each), `${each} of ${[...versions].join()}`);
  });
}
