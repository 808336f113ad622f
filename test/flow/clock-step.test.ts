/** A wall clock that is set while the brain runs. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Env, Timers } from '../../src/kit/env/env.ts';
import type { LeaseView } from '../../src/model/http/leases.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { start, tempFolder } from './flow-kit.ts';
import { VirtualEnv } from './virtual-env.ts';

const HOUR_MS = 3_600_000;

test('a step of the wall clock changes the rest of no lease, and nobody looks without a pause meanwhile', async (t) => {
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
  // The step has stood for a minute: brain time is an hour later now.
  await orchestrator.leases.heartbeat(kept.token, 'default');
  await time.pass(50_000);
  assert.equal(await held(), 2);
  assert.ok(waits < 1000, `${waits} timers in two minutes`);
  await time.pass(10 * 60_000 - 115_000 - 1000);
  assert.equal(await held(), 2);
  await time.pass(2000);
  assert.equal(await held(), 1, 'only who gave a sign of life holds on');
});

test('a clock that is two hours ahead for some minutes, and then right again, ends nothing early', async (t) => {
  const time = new VirtualEnv();
  let stepMs = 0;
  const clock = { now: () => time.now + stepMs, monotonic: () => time.now, isMadeUp: true } as const;
  const env: Env = { ...time.env(), clock };
  let begun = 0;
  const work = (): Promise<never> => {
    begun++;
    return new Promise(() => undefined);
  };
  const backends = [{ name: 'b', slots: 1, types: { work } }];
  const orchestrator = await start(t, { data: 'memory', backends, env });
  await orchestrator.submit({ job_id: 'runs', type: 'work', deadline_ms: HOUR_MS, timeout_ms: HOUR_MS / 2 });
  await orchestrator.submit({ job_id: 'waits', type: 'work', deadline_ms: HOUR_MS });
  await time.pass(3000);
  for (const [aheadMs, forMs] of [
    [2 * HOUR_MS, 5 * 60_000],
    [0, 10 * 60_000],
  ] as const) {
    stepMs = aheadMs;
    await time.pass(forMs);
    const states = await Promise.all(['runs', 'waits'].map(async (id) => (await orchestrator.get(id)).state));
    assert.deepEqual([...states, begun], ['running', 'queued', 1]);
  }
  await time.pass(HOUR_MS / 2);
  assert.notEqual((await orchestrator.get('runs')).state, 'running', 'its timeout has come');
  await time.pass(HOUR_MS / 2);
  assert.deepEqual((await orchestrator.get('waits')).error?.code, 'DEADLINE_EXCEEDED');
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

/** A brain on a folder, with a clock that can be set wrong. */
class WrongClock {
  readonly time = new VirtualEnv();
  stepMs = 0;
  readonly #t: TestContext;
  readonly #data: string;

  constructor(t: TestContext) {
    this.#t = t;
    this.#data = tempFolder(t);
  }

  start(): Promise<Orchestrator> {
    const { time } = this;
    const clock = { now: () => time.now + this.stepMs, monotonic: () => time.now, isMadeUp: true } as const;
    const env: Env = { ...time.env(), clock };
    const backends = [{ name: 'b', types: { work: () => 'done' } }];
    return time.until(start(this.#t, { data: this.#data, backends, env }));
  }
}

test('a job that is submitted in the minute after the clock was set right waits for its instant', async (t) => {
  const site = new WrongClock(t);
  const { time } = site;
  site.stepMs = 24 * HOUR_MS;
  const brain = await site.start();
  await time.until(brain.submit({ job_id: 'now', type: 'work' }));
  await time.pass(6000);
  site.stepMs = 0;
  await time.pass(3000);
  await time.until(brain.submit({ job_id: 'later', type: 'work', not_before: time.now + 2 * HOUR_MS }));
  await time.pass(5 * 60_000);
  assert.equal((await brain.get('later')).state, 'queued');
  await time.pass(2 * HOUR_MS);
  assert.equal((await time.until(brain.wait('later'))).state, 'succeeded');
  await time.until(brain.stop());
});

test('a job that is submitted at the instant at which brain time is set back keeps its deadline', async (t) => {
  const site = new WrongClock(t);
  const { time } = site;
  site.stepMs = 24 * HOUR_MS;
  const brain = await site.start();
  await time.until(brain.submit({ job_id: 'first', type: 'nobody' }));
  site.stepMs = 0;
  // One submit a second: the turn of one of them adopts the step.
  for (let second = 0; second < 70; second++) {
    await time.until(brain.submit({ job_id: `j${second}`, type: 'nobody', deadline_ms: HOUR_MS }));
    await time.pass(1000);
  }
  await time.pass(10 * 60_000);
  for (let second = 0; second < 70; second++)
    assert.equal((await brain.get(`j${second}`)).state, 'queued', `submitted after ${second} s`);
  await time.until(brain.stop());
});

test('ended jobs survive several starts with a clock that is a year ahead', async (t) => {
  const site = new WrongClock(t);
  const { time } = site;
  const first = await site.start();
  await time.until(first.submit({ job_id: 'kept', type: 'work' }));
  await time.until(first.wait('kept'));
  await time.until(first.stop());
  site.stepMs = 365 * 24 * HOUR_MS;
  for (let life = 0; life < 3; life++) {
    const wrong = await site.start();
    await time.pass(5 * 60_000);
    assert.equal((await wrong.get('kept')).state, 'succeeded');
    await time.until(wrong.stop());
  }
  // Once a brain has run for an hour, the clock is believed.
  const last = await site.start();
  await time.pass(70 * 60_000);
  await assert.rejects(last.get('kept'), { code: 'NOT_FOUND' });
  await time.until(last.stop());
});
