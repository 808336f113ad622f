import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PurgeResult, Store } from '../core/ports/store.ts';
import { realEnv } from '../kit/env/real.ts';
import { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';
import { Purge } from './purge.ts';

test('what is purged was looked through before, also where a purge takes longer than the time to the next', async () => {
  const told: string[] = [];
  const looked = Promise.withResolvers<PurgeResult>();
  const store = {
    planPurge: () => looked.promise,
    purge: async () => void told.push('purged'),
  } as unknown as Store;
  const loop = { ask: async () => void told.push('floor') } as unknown as Loop;
  const purge = new Purge(loop, store, new BrainClock(realEnv().clock), 0);
  const first = purge.run();
  await purge.run();
  looked.resolve({ jobs: 1, attemptFloor: 7 });
  await first;
  assert.deepEqual(told, ['floor', 'purged']);
  await purge.run();
  assert.deepEqual(told, ['floor', 'purged', 'floor', 'purged']);
});
