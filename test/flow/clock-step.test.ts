/** A wall clock that is set while the brain runs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Env, Timers } from '../../src/kit/env/env.ts';
import type { LeaseView } from '../../src/model/http/leases.ts';
import { start } from './flow-kit.ts';
import { VirtualEnv } from './virtual-env.ts';

const HOUR_MS = 3_600_000;

test('a step of the wall clock ends nothing for a minute, and nobody looks without a pause meanwhile', async (t) => {
  const time = new VirtualEnv();
  let stepMs = 0;
  let waits = 0;
  const timers: Timers = {
    soon: time.timers.soon,
    after: (ms, run) => {
      waits++;
      return time.timers.after(ms, run);
    },
  };
  const clock = { now: () => time.now + stepMs, monotonic: () => time.now, isMadeUp: true } as const;
  const env: Env = { ...time.env(), timers, clock };
  const orchestrator = await start(t, { data: 'memory', backends: [], env });
  const grant = (ttlMs: number): Promise<LeaseView> =>
    orchestrator.leases.grant({ agent: 'a', minMemoryMb: 0, ttlMs }, 'default');
  await grant(10 * 60_000);
  const kept = await grant(10 * 60_000);
  const held = async (): Promise<number> => (await orchestrator.reads.leases('default')).length;
  stepMs = HOUR_MS;
  waits = 0;
  await orchestrator.leases.heartbeat(kept.token, 'default');
  await time.pass(55_000);
  assert.equal(await held(), 2);
  assert.ok(waits < 500, `${waits} timers in 55 s`);
  await time.pass(10_000);
  assert.equal(await held(), 1, 'only who gave a sign of life holds on');
});
