import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PurgePlan, Store } from '../core/ports/store.ts';
import { realEnv } from '../kit/env/real.ts';
import { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';
import { Purge } from './purge.ts';

test('a job is purged only after its attempt floor was recorded, even if two purges overlap', async () => {
  const calls: string[] = [];
  const plan = Promise.withResolvers<PurgePlan>();
  const store = {
    planPurge: () => plan.promise,
    purge: async () => void calls.push('purged'),
    dropCharges: async () => 0,
  } as unknown as Store;
  const engine = { state: { brain: undefined, jobs: new Map() } };
  const loop = { engine, ask: async () => void calls.push('floor') } as unknown as Loop;
  const env = realEnv();
  const purge = new Purge(env, loop, store, new BrainClock(env.clock), { historyMs: 0, usageMs: 0 });
  const first = purge.run();
  await purge.run();
  plan.resolve({ jobs: 1, attemptFloor: 7, below: [] });
  await first;
  assert.deepEqual(calls, ['floor', 'purged']);
  await purge.run();
  assert.deepEqual(calls, ['floor', 'purged', 'floor', 'purged']);
});

test('the store is told brain time, and nothing while a step of the clock is in doubt or the purge rests', async () => {
  const told: number[][] = [];
  const store = {
    planPurge: async () => ({ jobs: 0, attemptFloor: 0, below: [] }),
    purge: async (...args: number[]) => void told.push(args.slice(0, 3)),
    dropCharges: async (...args: number[]) => {
      told.push(args);
      return 0;
    },
  } as unknown as Store;
  const brain = { purgeRestMs: 0 };
  const loop = {
    engine: { state: { brain, jobs: new Map() } },
    ask: async () => undefined,
  } as unknown as Loop;
  const clock = { wall: 1_000_000, now: () => clock.wall, monotonic: () => 0 };
  const purge = new Purge({ clock }, loop, store, new BrainClock(clock), { historyMs: 1000, usageMs: 2000 });
  clock.wall += 30 * 24 * 3_600_000;
  await purge.run();
  clock.wall = 1_000_000;
  brain.purgeRestMs = 60_000;
  await purge.run();
  assert.deepEqual(told, []);
  brain.purgeRestMs = 0;
  await purge.run();
  assert.deepEqual(told, [
    [999_000, 5000, 1_000_000],
    [998_000, 5000],
  ]);
});
