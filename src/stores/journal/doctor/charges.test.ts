/** The doctor on the ledger of a real brain's folder: charges that are missing or differ from their attempts. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { copyFolder } from '../../../../test/fakes/copy-folder.ts';
import { engineOf } from '../../../../test/fakes/engine-of.ts';
import { createOrchestrator } from '../../../index.ts';
import { RealDisk } from '../../../kit/env/real-disk.ts';
import { examine } from './doctor.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-doctor-charges-'));
const original = join(root, 'original');
let copies = 0;

after(() => rmSync(root, { recursive: true, force: true }));

const CONFIG = `
prices: [{model: "*", request: 5}]
orchestrator: {retry: {base_delay_ms: 3600000, max_delay_ms: 3600000}}
`;

/** Eight jobs that have ended, and one that is tried again in an hour: nine charges, some of them in the checkpoint. */
before(async () => {
  const types = {
    good: () => 'done',
    bad: () => {
      throw Object.assign(new Error('no'), { retriable: true });
    },
  };
  const backends = [{ name: 'local', slots: 4, types }];
  const brain = await createOrchestrator({ data: original, config: CONFIG, backends });
  await brain.submit({ job_id: 'tried', type: 'bad' });
  for (let n = 0; n < 4; n++)
    await brain.wait((await brain.submit({ job_id: `early${n}`, type: 'good' })).job_id);
  await brain.checkpoint();
  for (let n = 0; n < 4; n++)
    await brain.wait((await brain.submit({ job_id: `late${n}`, type: 'good' })).job_id);
  // Ended jobs leave memory once the index has them.
  while (engineOf(brain).state.jobs.size > 1) await turn();
  await brain.stop();
});

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** A copy of the folder on whose index this SQL was run. */
function edited(sql: string): string {
  const folder = join(root, `copy-${++copies}`);
  copyFolder(original, folder, ['spare']);
  const database = new DatabaseSync(join(folder, 'history.sqlite'));
  database.exec(sql);
  database.close();
  return folder;
}

/** The findings about charges, as `<verdict>: <sentence>`. */
async function found(folder: string): Promise<string[]> {
  const { findings } = await examine(new RealDisk(), folder);
  return findings
    .filter(({ check }) => check === 'charges')
    .map((each) => `${each.verdict}: ${each.sentence}`);
}

test('a ledger that has every closed attempt as the log tells it is healthy', async () => {
  assert.deepEqual(await found(edited('')), [
    'ok: 9 paid or counted attempts are in the ledger as the log tells them',
  ]);
});

test('charges that are missing are counted, of ended jobs and of those that go on', async () => {
  const folder = edited("DELETE FROM charges WHERE token IN ('early2:1', 'late1:1')");
  const [bad, ...others] = await found(folder);
  assert.match(bad ?? '', /^bad: 2 of 9 charges are missing, such as that of "(?:early2|late1):1"$/);
  assert.deepEqual(others, []);
  // The first charge of all is kept, so that age does not explain what is missing.
  const live =
    edited(`INSERT INTO charges SELECT at - 1, 'older:1', job, tenant, agent, submitted_by, session, tags, type,
    model, seat, route, root, ms, outcome, basis, cost, overrun, input, cache_read, cache_write, output, reasoning
    FROM charges ORDER BY at, token LIMIT 1; DELETE FROM charges WHERE token = 'tried:1'`);
  assert.deepEqual(await found(live), ['bad: 1 of 9 charges are missing, such as that of "tried:1"']);
});

test('charges with another cost, or for another agent, are counted', async () => {
  const cost = edited("UPDATE charges SET cost = cost + 1 WHERE token = 'late3:1'");
  assert.deepEqual(await found(cost), [
    'bad: 1 of 9 charges differ from their attempts, such as that of "late3:1"',
  ]);
  const agent = edited("UPDATE charges SET agent = 'mallory' WHERE token <> 'late3:1'");
  assert.match((await found(agent))[0] ?? '', /^bad: 8 of 9 charges differ/);
});

test('a charge that was made again without its request has no agent, and is compared by what it used', async () => {
  const folder = edited("UPDATE charges SET agent = '', submitted_by = '' WHERE token = 'late3:1'");
  assert.match((await found(folder))[0] ?? '', /^ok: 9 /);
});

test('charges that are older than all in the ledger may have been dropped by their age: the doctor warns of them', async () => {
  const folder = edited(
    'DELETE FROM charges WHERE at <= (SELECT at FROM charges ORDER BY at, token LIMIT 1)',
  );
  const [noted, ...others] = await found(folder);
  assert.match(noted ?? '', /^warn: \d of 9 charges are older than all in the ledger/);
  assert.deepEqual(others, []);
});

test('what an index need not have yet is not missed: charges behind its watermark, and those of an earlier version', async () => {
  const behind = edited("DELETE FROM charges; UPDATE facts SET value = 0 WHERE name = 'watermark'");
  assert.match((await found(behind))[0] ?? '', /^ok: 0 /);
  const earlier = edited("DROP TABLE charges; UPDATE facts SET value = 2 WHERE name = 'layout'");
  assert.match((await found(earlier))[0] ?? '', /^ok: an earlier version/);
});
