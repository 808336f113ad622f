/** Inspection: what is known of tokens, and how far the memory behind the answer reaches. */
import assert from 'node:assert/strict';
import { Brain } from './brain.ts';
import type { BackendHarness } from './harness.ts';
import type { BackendPromise } from './promises.ts';

export const INSPECT_PROMISES: readonly BackendPromise[] = [
  {
    title: 'an inspection tells what runs, what has ended and how, and nothing of other tokens',
    show: tells,
  },
  {
    title:
      'an inspection names the memory of the backend, which reaches back before every offer it answers for',
    show: reachesBack,
  },
  { title: 'a question about no token at all is answered too', show: emptyQuestion },
];

async function tells(harness: BackendHarness): Promise<void> {
  const brain = new Brain(harness);
  const ended = await brain.finish('ended');
  const running = await brain.start('running');
  const never = brain.token('never');
  const outcome = await brain.outcome(ended);
  const { known } = await brain.inspect(running, ended, never);
  assert.deepEqual([...known.keys()].sort(), [running, ended].sort());
  assert.deepEqual(known.get(running), { is: 'running' });
  assert.deepEqual(known.get(ended), { is: 'ended', outcome });
  const asked = await brain.inspect(ended);
  assert.deepEqual([...asked.known.keys()], [ended], 'only of the tokens that were asked about');
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
  const buried = await brain.kill(brain.token('never'));
  assert.deepEqual(buried, { is: 'tombstoned', registry, rememberedSince }, 'a kill names the same memory');
}

async function emptyQuestion(harness: BackendHarness): Promise<void> {
  const { known, registry, rememberedSince } = await new Brain(harness).inspect();
  assert.equal(known.size, 0);
  assert.ok(registry.length > 0);
  assert.ok(rememberedSince <= harness.now());
}
