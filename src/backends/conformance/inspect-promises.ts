/** Promises about inspections: the state of the tokens, and how far back the executor's memory reaches. */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import type { BackendPromise } from './promises.ts';

export const INSPECT_PROMISES: readonly BackendPromise[] = [
  {
    title: 'an inspection reports running and ended tokens with their outcome, and no others',
    check: reports,
  },
  {
    title:
      'an inspection names the registry of the backend, whose memory begins before every offer it has taken',
    check: reachesBack,
  },
  { title: 'an inspection of no tokens is answered too', check: noTokens },
];

async function reports(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const ended = await brain.finish('ended');
  const running = await brain.start('running');
  const never = brain.token('never');
  const outcome = await brain.outcome(ended);
  const { known } = await brain.inspect(running, ended, never);
  assert.deepEqual([...known.keys()].sort(), [running, ended].sort());
  assert.deepEqual(known.get(running), { is: 'running' });
  assert.deepEqual(known.get(ended), { is: 'ended', outcome });
  const one = await brain.inspect(ended);
  assert.deepEqual([...one.known.keys()], [ended], 'only the tokens that were inspected');
}

async function reachesBack(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const before = await brain.inspect();
  const intendedAt = harness.now();
  const token = await brain.finish('job');
  const after = await brain.inspect(token, brain.token('never'));
  assert.equal(after.registry, before.registry, 'the memory is still the same');
  assert.equal(after.registry, harness.backend.info.registry);
  assert.ok(after.rememberedSince <= intendedAt, `${after.rememberedSince} is later than ${intendedAt}`);
  const { registry, rememberedSince } = after;
  const killed = await brain.kill(brain.token('never'));
  assert.ok(killed.is === 'tombstoned');
  const { executorNow, ...memory } = killed;
  assert.deepEqual(memory, { is: 'tombstoned', registry, rememberedSince }, 'a kill names the same memory');
  // An executor that tells its clock tells it with every answer.
  assert.equal(executorNow === undefined, after.executorNow === undefined);
  if (executorNow !== undefined) assert.ok(executorNow >= rememberedSince);
}

async function noTokens(harness: BackendHarness): Promise<void> {
  const { known, registry, rememberedSince } = await new Brain(harness).inspect();
  assert.equal(known.size, 0);
  assert.ok(registry.length > 0);
  assert.ok(rememberedSince <= harness.now());
}
