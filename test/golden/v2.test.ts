/** Stores that commit 6869aaa wrote, a journal and a database, are opened with all that they hold. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { OrchdError } from '../../src/model/errors.ts';
import { examine } from '../../src/index.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { assertContents } from './v2-contents.ts';
import { copyOfJournal, dumpOfTables, NOW, onBothStores, open, START } from './v2-kit.ts';

onBothStores('version 2: every job and every record is there as it was', async (t, place) => {
  await assertContents(await open(t, place));
});

onBothStores('version 2: a second opening finds the same', async (t, place) => {
  const first = await open(t, place);
  await first.brain.list();
  await first.brain.checkpoint();
  await first.brain.stop();
  await assertContents(await open(t, place));
});

onBothStores('version 2: what was promised before still holds', async (t, place) => {
  const { brain } = await open(t, place);
  const refused = { code: 'ADMISSION_REJECT' };
  await assert.rejects(brain.submit({ payload: 1, key: 'poison' }), {
    ...refused,
    details: { reason: 'recent_failure', retryAfterMs: START + 3_601_540 - NOW },
  });
  const repeat = { agent: 'anna', key: 'finished', priority: 'interactive', score: 5 } as const;
  const again = await brain.submit({ job_id: 'done', payload: { ask: 'done' }, ...repeat });
  assert.deepEqual([again.status, again.duplicate_of], ['succeeded', 'job_id']);
  await assert.rejects(brain.submit({ job_id: 'done', payload: 2 }), { code: 'JOB_CONFLICT' });
  const holder = await brain.submit({ payload: 1, key: 'every key' });
  assert.deepEqual([holder.job_id, holder.duplicate_of], ['every-field', 'key']);
  await assert.rejects(brain.submit({ payload: 1, model: 'old' }), refused);
  await assert.rejects(brain.submit({ payload: 1, parent_id: 'cancelled-parent' }), refused);
  await assert.rejects(brain.leases.heartbeat('backend:desk', ''), { code: 'LEASE_NOT_HELD' });
});

onBothStores('version 2: what was spent of budgets stays spent', async (t, place) => {
  const { brain } = await open(t, place);
  const asks = (who: object, max_tokens: number) => brain.submit({ ...who, prompt: 'more', max_tokens });
  // 142 of the session's 5000 tokens are used, and 100 of anna's million are spent; the prompt is one token.
  for (const [who, left] of [
    [{ session_id: 'talk' }, 4858],
    [{ agent: 'anna', parallel: true, session_id: 'other' }, 999_900 - 6005],
  ] as const) {
    const isOverBudget = ({ code, details }: OrchdError): boolean =>
      code === 'ADMISSION_REJECT' && details.reason === 'token_budget';
    await assert.rejects(asks(who, left), isOverBudget);
    await asks(who, left - 1);
  }
});

test('version 2: the doctor finds the journal healthy, before and after this program has used it', async (t) => {
  const folder = copyOfJournal();
  const { disk } = realEnv();
  const damage = async () => {
    const { findings } = await examine(disk, folder);
    return findings.filter(({ verdict }) => verdict === 'bad');
  };
  const { facts } = await examine(disk, folder);
  assert.deepEqual(facts, {
    owner: '16b892fa144e272d',
    epoch: 2,
    lastSeq: 388,
    checkpointSeq: 333,
    segments: 6,
    logBytes: facts.logBytes,
    jobs: {
      queued: 8,
      claimed: 1,
      running: 8,
      waiting: 0,
      stale: 1,
      failed: 0,
      dead: 0,
      succeeded: 1,
      cancelled: 1,
    },
  });
  assert.deepEqual(await damage(), []);
  const { brain } = await open(t, folder);
  await brain.submit({ payload: 'new' });
  await brain.checkpoint();
  await brain.stop();
  assert.deepEqual(await damage(), []);
  assert.equal((await examine(disk, folder)).facts.epoch, 3);
});

test('version 2: the data hold every kind of record and causes of many sorts', () => {
  const events = [...dumpOfTables().matchAll(/^\(\d+, '[^']+', '(\w+):([^']+)', '/gm)];
  const kinds = new Set(events.map(([, kind]) => kind));
  const wanted = 'ask job attempt failure brain lease model session pool worker demand limits spent';
  assert.deepEqual([...kinds].sort(), wanted.split(' ').sort());
  const causes = new Set(events.map(([, kind, cause]) => `${kind}:${cause}`));
  assert.ok(causes.size >= 60, `${causes.size} causes`);
});

test('version 2: the data are small and hold nothing that is derived', () => {
  const journal = join(import.meta.dirname, 'v2', 'journal');
  const files = readdirSync(journal, { recursive: true, encoding: 'utf8' });
  assert.ok(!files.some((name) => /history|spare|lock/.test(name)));
  const names = readdirSync(journal, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  const bytes = names.reduce((sum, file) => sum + readFileSync(join(file.parentPath, file.name)).length, 0);
  assert.ok(bytes < 150_000 && dumpOfTables().length < 200_000, `${bytes} and ${dumpOfTables().length}`);
});
