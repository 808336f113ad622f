import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PurgeResult, Store } from '../core/ports/store.ts';
import { realEnv } from '../kit/env/real.ts';
import { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';
import { Purge } from './purge.ts';

test('a job is purged only after its attempt floor was recorded, even if two purges overlap', async () => {
  const calls: string[] = [];
  const plan = Promise.withResolvers<PurgeResult>();
  const store = {
    planPurge: () => plan.promise,
    purge: async () => void calls.push('purged'),
  } as unknown as Store;
  const engine = { state: { brain: undefined } };
  const loop = { engine, ask: async () => void calls.push('floor') } as unknown as Loop;
  const env = realEnv();
  const purge = new Purge(env, loop, store, new BrainClock(env.clock), 0);
  const first = purge.run();
  await purge.run();
  plan.resolve({ jobs: 1, attemptFloor: 7 });
  await first;
  assert.deepEqual(calls, ['floor', 'purged']);
  await purge.run();
  assert.deepEqual(calls, ['floor', 'purged', 'floor', 'purged']);
});
