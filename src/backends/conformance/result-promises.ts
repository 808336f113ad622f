/** Promises about outcomes: every call reports the same one, complete, and it is kept until it is acknowledged. */

import assert from 'node:assert/strict';
import type { ExecutionOutcome } from '../../core/ports/backend.ts';
import { isErrorCode } from '../../model/errors.ts';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import type { BackendPromise } from './promises.ts';
import { resultOf } from './reader.ts';

export const RESULT_PROMISES: readonly BackendPromise[] = [
  { title: 'readers, inspections and kills report the same outcome', check: sameOutcome },
  { title: 'a failure has a code of the catalogue and is marked as retriable or not', check: failures },
  { title: 'a large result arrives complete', check: large },
  { title: 'results and events keep every character', check: characters },
  { title: 'a result is kept until it is acknowledged, however often it was read', check: kept },
  {
    title: 'an acknowledgement may be repeated; that of an unknown token changes nothing',
    check: ackTwice,
  },
  { title: 'an acknowledgement of a running execution changes nothing', check: ackRunning },
  { title: 'nobody reads what was said in an erased execution, and its token is still known', check: erased },
  { title: 'the erasure of a running or unknown token changes nothing', check: eraseRunning },
];

async function sameOutcome(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  for (const end of ['succeed', 'fail', 'kill'] as const) {
    const token = await brain.start(end);
    const work = brain.execution(token);
    await work.say('some\n');
    await work.say('text\n');
    if (end === 'succeed') await work.succeed();
    else if (end === 'fail') await work.fail(true);
    else await brain.kill(token);
    const outcome = await brain.outcome(token);
    assert.deepEqual(await brain.status(token), { is: 'ended', outcome }, `${end}: by an inspection`);
    assert.deepEqual(await brain.kill(token), { is: 'ended', outcome }, `${end}: by a kill`);
    assert.deepEqual(await brain.outcome(token), outcome, `${end}: by a second reader`);
  }
}

async function failures(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  for (const retriable of [true, false]) {
    const token = await brain.start(`retriable-${retriable}`);
    await brain.execution(token).fail(retriable);
    const outcome = await brain.outcome(token);
    assert.equal(outcome.ok, false);
    const { error } = outcome as Extract<ExecutionOutcome, { ok: false }>;
    assert.ok(isErrorCode(error.code), error.code);
    assert.equal(error.retriable, retriable);
    assert.ok(error.message.length > 0);
  }
}

/** Below the smallest bound of any backend: a command's result is cut after 1 MiB. */
const LARGE = `${'large 🦊 text\n'.repeat(40_000)}end`;

async function large(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  await brain.execution(token).say(LARGE);
  await brain.execution(token).succeed();
  const outcome = await brain.outcome(token);
  assert.ok(resultOf(outcome) === LARGE, 'the result is complete');
  assert.ok((await brain.readAll(token)).text === LARGE, 'the events are complete');
  assert.deepEqual(await brain.status(token), { is: 'ended', outcome });
}

async function characters(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  const pieces = [
    'tab\t ',
    'line\nfeed\r\n',
    'return\r ',
    'zero \u0000 ',
    '\u2028\u2029 ',
    '🦊🏳️‍🌈 ü e\u0301 ',
    '"\\ ',
    '\ud7ff\uffff',
  ];
  for (const piece of pieces) await brain.execution(token).say(piece);
  await brain.execution(token).succeed();
  const { text, outcome } = await brain.readAll(token);
  assert.equal(text, pieces.join(''));
  assert.equal(resultOf(outcome), pieces.join(''));
}

async function kept(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.finish('job', 'kept\n');
  const whole = await brain.readAll(token);
  for (let time = 0; time < 3; time++) {
    assert.deepEqual(await brain.status(token), { is: 'ended', outcome: whole.outcome });
    assert.deepEqual(await brain.readAll(token), whole);
    await brain.offer(token);
    await brain.kill(token);
  }
  assert.equal(resultOf(whole.outcome), 'kept\n');
}

async function ackTwice(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.finish('job');
  const never = brain.token('never');
  for (let time = 0; time < 2; time++) {
    await brain.ack(token);
    await brain.ack(never);
  }
  assert.notEqual((await brain.status(token))?.is, 'running');
  assert.equal(await brain.status(never), undefined);
  assert.equal(await brain.start('never'), never);
  assert.equal(harness.begun(token), 1);
}

async function ackRunning(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  await brain.ack(token);
  assert.deepEqual(await brain.status(token), { is: 'running' });
  assert.deepEqual(await brain.offer(token), { is: 'accepted' });
  await brain.execution(token).say('kept\n');
  await brain.execution(token).succeed();
  assert.equal(resultOf(await brain.outcome(token)), 'kept\n');
  assert.equal(harness.begun(token), 1);
}

async function erased(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const [token, other] = [await brain.finish('job', 'said here\n'), await brain.finish('other', 'kept\n')];
  // Whether it was acknowledged before does not matter.
  const failed = await brain.start('failed');
  await brain.execution(failed).say('said there\n');
  await brain.execution(failed).fail(false);
  await brain.outcome(failed);
  await brain.ack(failed);
  for (let time = 0; time < 2; time++)
    for (const each of [token, failed]) {
      await brain.erase(each);
      const reader = brain.read(each);
      const seen = [await harness.within(reader.end), await brain.status(each), await brain.kill(each)];
      const text = JSON.stringify([reader.events, seen]);
      assert.ok(!text.includes('said'), `it is read in ${text}`);
      assert.notEqual((await brain.status(each))?.is, 'running');
    }
  for (const each of [token, failed]) {
    const { is } = await brain.offer(each);
    assert.ok(is === 'accepted' || is === 'refused', `its offer is answered with ${is}`);
    assert.equal(harness.begun(each), 1);
  }
  assert.equal(resultOf(await brain.outcome(other)), 'kept\n');
}

async function eraseRunning(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.start('job');
  await brain.execution(token).say('goes ');
  // A backend may refuse it.
  await brain.erase(token).catch(() => undefined);
  const never = brain.token('never');
  await brain.erase(never);
  assert.deepEqual(await brain.status(token), { is: 'running' });
  await brain.execution(token).say('on\n');
  await brain.execution(token).succeed();
  assert.equal(resultOf(await brain.outcome(token)), 'goes on\n');
  assert.equal(await brain.start('never'), never);
}
