/**
 * The happenings of v9: jobs that consumers have asked for, and a policy that an operator has set. Two runs of a brain, the
 * same on every store; at the end one consumer holds a job, one job waits to be claimed, and one has an unknown outcome.
 */
import type { SubmitRequest } from '../../../src/model/submit.ts';
import { type Stage, submit } from './script.ts';

export const POOL = 'words';
export const [ANN, BOB] = ['a'.repeat(32), 'b'.repeat(32)];
const TTL_MS = 3_600_000;

const pulled = (fields: Partial<SubmitRequest> = {}): SubmitRequest => ({
  type: 'count',
  backend: 'consumers',
  wait_for_backend: true,
  ...fields,
});

async function register({ brain, world }: Stage, name: string, consumer_id: string): Promise<void> {
  const declared = { pool: POOL, slots: 2, types: ['count'], labels: { zone: 'a' } };
  await world.settled(brain.consumers.register({ ...declared, name, consumer_id, lease_ttl_ms: TTL_MS }));
}

const claim = ({ brain, world }: Stage, id: string, number: number, token: string): Promise<string> =>
  world.settled(brain.consumers.claim(id, { claim: number, max: 1, tokens: [token] }, () => undefined));

export async function firstClaims(stage: Stage): Promise<void> {
  const { brain, world } = stage;
  await register(stage, 'ann', ANN);
  await register(stage, 'bob', BOB);
  await submit(stage, { done: pulled(), held: pulled(), lost: pulled({ on_unknown: 'hold' }) });
  await claim(stage, ANN, 1, 'done:1');
  await claim(stage, ANN, 2, 'held:1');
  await claim(stage, BOB, 1, 'lost:1');
  await world.settled(brain.checkpoint());
  const results = [{ token: 'done:1', ok: true as const, result: { words: 3 } }];
  await world.settled(brain.consumers.results(ANN, { results }));
}

export async function secondClaims(stage: Stage): Promise<void> {
  const { brain, world } = stage;
  await world.settled(brain.consumers.leave(BOB));
  await submit(stage, { unclaimed: pulled() });
  const late = [{ token: 'done:1', ok: true as const, result: { words: 4 } }];
  await register(stage, 'bob', 'c'.repeat(32));
  await world.settled(brain.consumers.results('c'.repeat(32), { results: late }));
  const gates = { agent_waiting: { high: 50, low: 40 } };
  await world.settled(brain.policy.set({ why: 'a flood', gates }, 'ann'));
}
