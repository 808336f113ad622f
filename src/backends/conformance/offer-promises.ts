/** Promises about offers: which ones begin work, how often, and which ones are declined. */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import type { BackendPromise } from './promises.ts';
import { resultOf } from './reader.ts';

export const OFFER_PROMISES: readonly BackendPromise[] = [
  { title: 'an accepted offer begins its work once, with the payload unchanged', check: begins },
  {
    title: 'concurrent copies of an offer are all accepted and begin the work once',
    check: concurrentCopies,
  },
  { title: 'a copy of an offer after the end is accepted and begins nothing', check: afterTheEnd },
  {
    title: 'a copy of an offer after the acknowledgement is accepted or refused, and begins nothing',
    check: afterAck,
  },
  {
    title: 'an offer past the slots is answered with busy and leaves nothing behind',
    check: pastSlots,
  },
  { title: 'a copy of an offer is accepted while all slots are in use', check: copyWhileFull },
  {
    title: 'work that the backend does not run is refused with an error and leaves nothing behind',
    check: unrunnable,
  },
  {
    title: 'an offer that names another registry is answered with busy and begins nothing',
    check: otherRegistry,
  },
];

async function begins(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = brain.token('job');
  const payload = 'tab\t line\nfeed\r return \u2028 "quoted" \\ 🦊 ü '.repeat(5000);
  assert.deepEqual(await brain.offer(token, { payloadText: JSON.stringify(payload) }), { is: 'accepted' });
  assert.equal(await harness.within(brain.execution(token).begun), payload);
  await brain.execution(token).succeed();
  assert.equal((await brain.outcome(token)).ok, true);
  assert.equal(harness.begun(token), 1);
}

async function concurrentCopies(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = brain.token('job');
  const replies = await Promise.all(Array.from({ length: 5 }, () => brain.offer(token)));
  assert.deepEqual(new Set(replies.map(({ is }) => is)), new Set(['accepted']));
  await brain.execution(token).say('once\n');
  await brain.execution(token).succeed();
  assert.equal(resultOf(await brain.outcome(token)), 'once\n');
  assert.equal(harness.begun(token), 1);
}

async function afterTheEnd(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.finish('job');
  const outcome = await brain.outcome(token);
  assert.deepEqual(await brain.offer(token), { is: 'accepted' });
  assert.deepEqual(await brain.status(token), { is: 'ended', outcome });
  assert.equal(harness.begun(token), 1);
}

async function afterAck(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = await brain.finish('job');
  await brain.ack(token);
  const { is } = await brain.offer(token);
  assert.ok(is === 'accepted' || is === 'refused', `it is answered with ${is}`);
  assert.notEqual((await brain.status(token))?.is, 'running');
  assert.equal(harness.begun(token), 1);
}

/** Starts as many executions as there are slots. */
async function fill(brain: Brain, { backend }: BackendHarness): Promise<string[]> {
  const tokens: string[] = [];
  for (let slot = 0; slot < backend.info.slots; slot++) tokens.push(await brain.start(`slot${slot}`));
  return tokens;
}

async function pastSlots(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const [first] = await fill(brain, harness);
  const token = brain.token('late');
  assert.equal((await brain.offer(token)).is, 'busy');
  assert.equal(await brain.status(token), undefined);
  assert.equal(harness.begun(token), 0);
  await brain.execution(first as string).succeed();
  await brain.outcome(first as string);
  assert.equal(await brain.start('late'), token);
  await brain.execution(token).succeed();
  assert.equal((await brain.outcome(token)).ok, true);
  assert.equal(harness.begun(token), 1);
}

async function copyWhileFull(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  for (const token of await fill(brain, harness)) {
    assert.deepEqual(await brain.offer(token), { is: 'accepted' });
    assert.equal(harness.begun(token), 1);
  }
}

async function unrunnable(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  assert.ok(harness.unrunnable.length > 0);
  for (const [at, work] of harness.unrunnable.entries()) {
    const token = brain.token(`job${at}`);
    const reply = await brain.offer(token, work);
    assert.equal(reply.is, 'refused', JSON.stringify(work));
    const { code, message, retriable } = (reply as Extract<typeof reply, { is: 'refused' }>).error;
    assert.deepEqual([typeof code, typeof message, typeof retriable], ['string', 'string', 'boolean']);
    assert.equal(await brain.status(token), undefined);
    assert.equal(harness.begun(token), 0);
    // Nothing is left behind: a kill still finds the token unknown, and no slot is taken.
    assert.equal((await brain.kill(token, 'bury')).is, 'tombstoned');
  }
  await fill(brain, harness);
}

async function otherRegistry(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const token = brain.token('job');
  const { registry } = await brain.inspect();
  assert.equal((await brain.offer(token, { registry: `not-${registry}` })).is, 'busy');
  assert.equal(await brain.status(token), undefined);
  assert.equal(harness.begun(token), 0);
  assert.deepEqual(await brain.offer(token, { registry }), { is: 'accepted' });
  await brain.execution(token).succeed();
  await brain.outcome(token);
  assert.equal(harness.begun(token), 1);
}
