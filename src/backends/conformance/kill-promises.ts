/**
 * Promises about kills: a running execution ends, an unknown token never runs, and a kill with `bury`, which only asks
 * for that certainty, leaves a running execution alone (decision 12).
 */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import { type BackendPromise, needsKeptResults } from './promises.ts';
import { outcomeOf, resultOf } from './reader.ts';

export const KILL_PROMISES: readonly BackendPromise[] = [
  {
    title: 'a kill ends a running execution; readers and inspections report it as cancelled',
    check: killRunning,
  },
  { title: 'concurrent and repeated kills of one token have the effect of one', check: repeatedKills },
  { title: 'a kill after the end changes nothing and returns the outcome', check: afterTheEnd },
  {
    title: 'a kill of an unknown token leaves a tombstone: a later offer is refused and never runs',
    check: tombstone,
  },
  {
    title: 'a tombstone is not an execution: inspections omit it and readers get `lost`',
    check: tombstoneIsNoExecution,
  },
  {
    title: 'a tombstone survives a restart of the brain',
    skipReason: needsKeptResults,
    check: tombstoneAfterRestart,
  },
  {
    title:
      'a kill with `bury` leaves a running execution alone and says that it runs; of an ended one it returns the outcome',
    check: buryRunning,
  },
  {
    title: 'of a concurrent offer and kill with `bury` one wins: the token runs, or it never will',
    check: concurrentOfferAndBury,
  },
];

async function killRunning(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const other = await brain.start('other');
  const reader = brain.read(token);
  await brain.execution(token).say('begun\n');
  await harness.within(reader.until(({ text }) => text === 'begun\n'));
  const { is } = await brain.kill(token);
  assert.ok(is === 'stopping' || is === 'ended', `it is answered with ${is}`);
  const outcome = outcomeOf(await harness.within(reader.end));
  assert.deepEqual(outcome, { ok: 'cancelled' });
  assert.deepEqual(await brain.status(token), { is: 'ended', outcome });
  assert.deepEqual(await brain.kill(token), { is: 'ended', outcome });
  assert.deepEqual(await brain.status(other), { is: 'running' }, 'no other token is touched');
}

async function repeatedKills(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const replies = await Promise.all([brain.kill(token), brain.kill(token), brain.kill(token)]);
  for (const { is } of replies) assert.ok(is === 'stopping' || is === 'ended', `it is answered with ${is}`);
  const outcome = await brain.outcome(token);
  assert.deepEqual(outcome, { ok: 'cancelled' });
  for (let time = 0; time < 2; time++) assert.deepEqual(await brain.kill(token), { is: 'ended', outcome });
  assert.equal(harness.begun(token), 1);
}

async function afterTheEnd(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.finish('job', 'kept\n');
  const outcome = await brain.outcome(token);
  assert.deepEqual(await brain.kill(token), { is: 'ended', outcome });
  assert.deepEqual(await brain.status(token), { is: 'ended', outcome });
  assert.equal(resultOf(await brain.outcome(token)), 'kept\n');
}

async function tombstone(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  for (const how of ['end', 'bury'] as const) {
    const token = brain.token(how);
    for (let time = 0; time < 2; time++) assert.equal((await brain.kill(token, how)).is, 'tombstoned');
    const replies = await Promise.all([brain.offer(token), brain.offer(token)]);
    for (const { is } of replies) assert.equal(is, 'refused', `after a kill with ${how}`);
    assert.equal(harness.begun(token), 0);
    assert.equal((await brain.kill(token, how)).is, 'tombstoned', 'also after the offer');
  }
}

async function tombstoneIsNoExecution(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = brain.token('never');
  await brain.kill(token);
  assert.equal(await brain.status(token), undefined);
  assert.deepEqual(await harness.within(brain.read(token).end), { is: 'lost' });
}

async function tombstoneAfterRestart(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = brain.token('never');
  await brain.kill(token);
  await harness.restartBrain();
  assert.equal((await brain.offer(token)).is, 'refused');
  assert.equal(harness.begun(token), 0);
}

async function buryRunning(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  assert.deepEqual(await brain.kill(token, 'bury'), { is: 'running' });
  assert.deepEqual(await brain.status(token), { is: 'running' });
  await brain.execution(token).say('alive\n');
  await brain.execution(token).succeed();
  const outcome = await brain.outcome(token);
  assert.equal(resultOf(outcome), 'alive\n');
  assert.deepEqual(await brain.kill(token, 'bury'), { is: 'ended', outcome });
}

async function concurrentOfferAndBury(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  for (let round = 0; round < 4; round++) {
    const token = brain.token(`job${round}`);
    const offering = brain.offer(token);
    const [offered, killed] = await Promise.all([offering, brain.kill(token, 'bury')]);
    if (offered.is === 'accepted') {
      assert.equal(killed.is, 'running');
      await brain.execution(token).succeed();
      assert.equal((await brain.outcome(token)).ok, true);
    } else {
      assert.deepEqual([offered.is, killed.is], ['refused', 'tombstoned']);
      assert.equal((await brain.offer(token)).is, 'refused');
    }
    assert.equal(harness.begun(token), offered.is === 'accepted' ? 1 : 0);
  }
}
