/**
 * Promises about the fence: of each owner only the brain with the highest epoch is obeyed. Following changes nothing, so
 * a backend may still let an older brain follow.
 */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import { type BackendPromise, needsKeptResults, needsSharing } from './promises.ts';
import { resultOf } from './reader.ts';

export const FENCE_PROMISES: readonly BackendPromise[] = [
  { title: 'an offer of an older epoch is fenced and begins nothing', check: offer },
  { title: 'a kill of an older epoch is fenced: it ends nothing and leaves no tombstone', check: kill },
  { title: 'an acknowledgement or an erasure of an older epoch drops nothing', check: ack },
  { title: 'a newer epoch takes over the executions of an older one', check: takesOver },
  { title: 'a newer epoch fences the older ones from its first call on', check: fromTheFirstCall },
  {
    title: 'the fence survives a restart of the brain',
    skipReason: needsKeptResults,
    check: fenceAfterRestart,
  },
  { title: 'the epoch of one owner fences no other owner', check: ownEpochs },
  { title: 'of two brains with the same epoch only the first is obeyed: one is on a copy', check: copies },
  {
    title:
      'an inspection is refused where an offer would be: a brain on an older copy learns it before it has offered',
    check: inspection,
  },
  {
    title: 'an inspection names the opening that commanded the executor before',
    skipReason: needsKeptResults,
    check: namesOpening,
  },
  {
    title: 'a token that has run another body is a conflict: its result is never given for this one',
    check: otherBody,
  },
  {
    title:
      'the same token of two owners is two tokens: neither owner sees, ends or acknowledges the other one',
    skipReason: needsSharing,
    check: twoOwners,
  },
];

async function offer(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  const running = await old.successor().start('running');
  const token = old.token('job');
  assert.deepEqual(await old.offer(token), { is: 'fenced' });
  assert.deepEqual(await old.offer(running), { is: 'fenced' }, 'a copy of an offer too');
  assert.equal(harness.begun(token), 0);
  assert.equal(await old.successor().start('job'), token, 'it left nothing behind');
}

async function kill(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  const brain = old.successor();
  const running = await brain.start('running');
  const never = brain.token('never');
  for (const how of ['end', 'bury'] as const) {
    assert.deepEqual(await old.kill(running, how), { is: 'fenced' });
    assert.deepEqual(await old.kill(never, how), { is: 'fenced' });
  }
  assert.deepEqual(await brain.status(running), { is: 'running' });
  assert.equal(await brain.start('never'), never, 'it is not refused');
  await brain.execution(running).say('alive\n');
  await brain.execution(running).succeed();
  assert.equal(resultOf(await brain.outcome(running)), 'alive\n');
}

async function ack(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  const token = await old.finish('job', 'kept\n');
  const brain = old.successor();
  await brain.inspect();
  // They return nothing, so a backend may throw where it is fenced.
  await old.ack(token).catch(() => undefined);
  await old.erase(token).catch(() => undefined);
  const status = await brain.status(token);
  assert.equal(status?.is, 'ended');
  assert.equal(resultOf(await brain.outcome(token)), 'kept\n');
}

async function takesOver(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  const [finishes, dies] = [await old.start('finishes'), await old.start('dies')];
  const brain = old.successor();
  const { known } = await brain.inspect(finishes, dies);
  assert.deepEqual([known.get(finishes), known.get(dies)], [{ is: 'running' }, { is: 'running' }]);
  assert.deepEqual(await brain.offer(finishes), { is: 'accepted' });
  const reader = brain.read(finishes);
  await brain.execution(finishes).say('go on\n');
  await brain.execution(finishes).succeed();
  await harness.within(reader.end);
  assert.equal(reader.text, 'go on\n');
  await brain.kill(dies);
  assert.deepEqual(await brain.outcome(dies), { ok: 'cancelled' });
  await brain.ack(finishes);
  assert.deepEqual([harness.begun(finishes), harness.begun(dies)], [1, 1]);
}

async function fromTheFirstCall(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  await old.successor().inspect();
  assert.deepEqual(await old.offer(old.token('job')), { is: 'fenced' });
  await old.successor().successor().kill(old.token('never'));
  assert.deepEqual(await old.successor().kill(old.token('other')), { is: 'fenced' });
}

async function fenceAfterRestart(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness);
  await old.successor().inspect();
  await harness.restartBrain();
  assert.deepEqual(await old.offer(old.token('job')), { is: 'fenced' });
  assert.deepEqual(await old.kill(old.token('job')), { is: 'fenced' });
}

async function ownEpochs(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  await brain.successor().inspect();
  const other = await brain.otherOwner();
  const token = await other.start('job');
  assert.equal((await other.kill(other.token('never'))).is, 'tombstoned');
  await other.execution(token).succeed();
  assert.equal((await other.outcome(token)).ok, true);
  await other.ack(token);
}

async function twoOwners(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const other = await brain.otherOwner();
  const running = await brain.start('running');
  const ended = await brain.finish('ended', 'kept\n');
  for (const token of [running, ended]) {
    assert.equal(await other.status(token), undefined);
    assert.deepEqual(await harness.within(other.read(token).end), { is: 'lost' });
    await other.ack(token);
    await other.erase(token);
    assert.equal((await other.kill(token)).is, 'tombstoned');
    assert.equal((await other.offer(token)).is, 'refused');
  }
  assert.deepEqual(await brain.status(running), { is: 'running' });
  assert.equal(resultOf(await brain.outcome(ended)), 'kept\n');
  assert.deepEqual([harness.begun(running), harness.begun(ended)], [1, 1]);
  const both = await brain.finish('both');
  assert.deepEqual(await other.offer(both), { is: 'accepted' });
  // Each of them has its own run. A status is an answer of the executor, which takes its time to begin.
  while (harness.begun(both) < 2) await harness.within(other.status(both));
}

async function copies(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness).onCopy('first');
  const copy = new Brain(harness).onCopy('second');
  const running = await brain.start('running');
  assert.deepEqual(await copy.offer(copy.token('job')), { is: 'fenced' });
  assert.deepEqual(await copy.kill(running), { is: 'fenced' });
  assert.deepEqual(await brain.status(running), { is: 'running' });
  assert.equal(harness.begun(copy.token('job')), 0);
}

async function inspection(harness: BackendHarness): Promise<void> {
  const old = new Brain(harness).onCopy('old');
  const brain = old.successor().onCopy('new');
  const copy = old.successor().onCopy('copy');
  const running = await brain.start('running');
  for (const refused of [old, copy]) {
    await assert.rejects(refused.inspect(), { code: 'FENCED' });
    await assert.rejects(refused.inspect(running), { code: 'FENCED' });
  }
  assert.deepEqual(await brain.status(running), { is: 'running' });
}

async function namesOpening(harness: BackendHarness): Promise<void> {
  const first = new Brain(harness).onCopy('first');
  assert.equal((await first.inspect()).openingBefore, undefined);
  const second = first.successor().onCopy('second');
  assert.deepEqual((await second.inspect()).openingBefore, { epoch: 1, nonce: 'first' });
  await harness.restartBrain();
  const third = second.successor().onCopy('third');
  await third.offer(third.token('job'));
  assert.deepEqual((await third.inspect()).openingBefore, { epoch: 2, nonce: 'second' });
}

async function otherBody(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = brain.token('job');
  assert.deepEqual(await brain.offer(token, { hash: 'aa' }), { is: 'accepted' });
  assert.deepEqual(await brain.offer(token, { hash: 'bb' }), { is: 'conflict' });
  assert.deepEqual(await brain.offer(token, { hash: 'aa' }), { is: 'accepted' });
  await harness.within(brain.execution(token).begun);
  assert.deepEqual(await brain.status(token), { is: 'running', hash: 'aa' });
  await brain.execution(token).succeed();
  await harness.within(brain.read(token).end);
  assert.deepEqual(await brain.offer(token, { hash: 'bb' }), { is: 'conflict' });
  const { is, hash } = (await brain.status(token)) ?? {};
  assert.deepEqual([is, hash], ['ended', 'aa']);
  const killed = await brain.kill(token, 'bury');
  assert.deepEqual([killed.is, 'hash' in killed && killed.hash], ['ended', 'aa']);
  assert.equal(harness.begun(token), 1);
}
