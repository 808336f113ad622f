/** A wall clock that is set while the brain runs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Env, Timers } from '../../src/kit/env/env.ts';
import type { LeaseView } from '../../src/model/http/leases.ts';
import { start, tempFolder } from './flow-kit.ts';
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
  await time.pass(65_000);
  // The step has stood for a minute: brain time is an hour later now, and the holders have a minute to say something.
  await orchestrator.leases.heartbeat(kept.token, 'default');
  await time.pass(50_000);
  assert.equal(await held(), 2);
  assert.ok(waits < 1000, `${waits} timers in two minutes`);
  await time.pass(15_000);
  assert.equal(await held(), 1, 'only who gave a sign of life holds on');
});

test('a clock that is a day ahead for some seconds starts no job early, not after a restart either', async (t) => {
  const time = new VirtualEnv();
  let stepMs = 0;
  const clock = { now: () => time.now + stepMs, monotonic: () => time.now, isMadeUp: true } as const;
  const env: Env = { ...time.env(), clock };
  const data = tempFolder(t);
  const backends = [{ name: 'b', types: { work: () => 'done' } }];
  const brain = await time.until(start(t, { data, backends, env }));
  const at = time.now + 2 * HOUR_MS;
  await time.until(brain.submit({ job_id: 'later', type: 'work', not_before: at }));
  stepMs = 24 * HOUR_MS;
  await time.pass(7000);
  await time.until(brain.submit({ job_id: 'meanwhile', type: 'work' }));
  stepMs = 0;
  await time.pass(3 * 60_000);
  assert.equal((await brain.get('later')).state, 'queued');
  await time.until(brain.stop());
  const next = await time.until(start(t, { data, backends, env }));
  await time.pass(3 * 60_000);
  assert.equal((await next.get('later')).state, 'queued');
  await time.pass(2 * HOUR_MS);
  assert.equal((await time.until(next.wait('later'))).state, 'succeeded');
  await time.until(next.stop());
});
