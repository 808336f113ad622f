/** Everything that was there before a restart is there after it. */

import assert from 'node:assert/strict';
import type { JobView } from '../../src/index.ts';
import type { Env, Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { LASTING, onStores, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

/** Returns the view of every job, without estimates. */
async function everything(orchestrator: Orchestrator): Promise<JobView[]> {
  const { jobs } = await orchestrator.list({ limit: 1000 });
  const full = await Promise.all(jobs.map(({ job_id }) => orchestrator.get(job_id)));
  return full.map(({ predicted_start_ms: _, ...job }) => job);
}

/** Jobs in every state that lasts. */
async function fill(orchestrator: Orchestrator, stage: Stage): Promise<void> {
  await orchestrator.submit({ job_id: 'large', type: 'run', payload: 'x'.repeat(100_000) });
  await orchestrator.submit({ job_id: 'failed', type: 'run', key: 'k', max_tries: 1 });
  await orchestrator.submit({ job_id: 'runs', type: 'run', session_id: 's' });
  await stage.startedCount(3);
  stage.end('large:1', { ok: true, resultText: JSON.stringify('y'.repeat(100_000)) });
  const error = { code: 'EXECUTION_FAILED', message: 'no 🦊', retriable: false } as const;
  stage.end('failed:1', { ok: false, error });
  await orchestrator.submit({ job_id: 'parked', type: 'run', session_id: 's' });
  await orchestrator.submit({ job_id: 'later', not_before: 4e12, labels: { a: 'b' }, score: 3 });
  await orchestrator.submit({
    job_id: 'waits',
    type: 'nothing-runs-this',
    priority: 'interactive',
    agent: 'x',
  });
  await orchestrator.submit({ job_id: 'child', parent_id: 'waits', weight: 2, deadline_ms: 1e9 });
  await orchestrator.submit({ job_id: 'gone' });
  await orchestrator.cancel('gone');
  await orchestrator.submit({ job_id: 'waits', payload: 1 }, { tenant: 'acme' });
  await orchestrator.wait('large');
  await orchestrator.wait('failed');
  while ((await orchestrator.get('runs')).state !== 'running') await turns(1);
}

for (const checkpointed of [false, true]) {
  const how = checkpointed ? 'with a checkpoint' : 'at once';
  onStores(`a restart changes nothing of what is told of any job, ${how}`, LASTING, async (t, data) => {
    const stage = new Stage({ types: ['run'], slots: 5 });
    t.after(() => stage.endAll());
    let orchestrator = await start(t, { data, backends: [stage] });
    await fill(orchestrator, stage);
    for (let round = 0; round < 3; round++) {
      const before = await everything(orchestrator);
      const theirs = await orchestrator.get('waits', 'acme');
      assert.equal(before.length, 8);
      if (checkpointed) await orchestrator.checkpoint();
      await orchestrator.stop();
      orchestrator = await start(t, { data, backends: [stage] });
      assert.deepEqual(await everything(orchestrator), before, `round ${round}`);
      assert.equal((await orchestrator.get('waits', 'acme')).created_at, theirs.created_at);
    }
    assert.equal(((await orchestrator.get('large')).result as string).length, 100_000);
    assert.equal(stage.started.length, 3, 'nothing ran twice');
  });
}

onStores(
  'work that runs elsewhere is found again: followed to its end when it still runs, collected when it has ended',
  LASTING,
  async (t, data) => {
    const stage = new Stage({ slots: 5 });
    t.after(() => stage.endAll());
    const first = await start(t, { data, backends: [stage] });
    for (const job_id of ['runs on', 'ends meanwhile'].map((id) => id.replace(' ', '-')))
      await first.submit({ job_id });
    await stage.startedCount(2);
    await first.stop();
    stage.end('ends-meanwhile:1', { ok: true, resultText: '"collected"' });
    const second = await start(t, { data, backends: [stage] });
    assert.equal((await second.wait('ends-meanwhile')).result, 'collected');
    const waiting = second.wait('runs-on');
    stage.end('runs-on:1', { ok: true, resultText: '"followed"' });
    assert.equal((await waiting).result, 'followed');
    assert.deepEqual(stage.started, ['runs-on:1', 'ends-meanwhile:1']);
    assert.equal((await second.get('runs-on')).attempts.length, 1);
  },
);

onStores(
  'a job that was never offered because the brain stopped first is offered by the next one, once',
  LASTING,
  async (t, data) => {
    const stage = new Stage();
    t.after(() => stage.endAll());
    const first = await start(t, { data, backends: [] });
    await first.submit({ job_id: 'a', payload: 'x'.repeat(10_000) });
    await first.stop();
    const second = await start(t, { data, backends: [stage] });
    await stage.startedCount(1);
    stage.endAll();
    assert.equal((await second.wait('a')).state, 'succeeded');
    assert.equal(JSON.parse(stage.offers[0]!.payloadText).length, 10_000);
    assert.deepEqual(stage.started, ['a:1']);
  },
);

onStores(
  'work that died with the process is tried again: a function keeps no results',
  LASTING,
  async (t, data) => {
    const runs: number[] = [];
    const { promise: never } = Promise.withResolvers<void>();
    const config = 'orchestrator: {retry: {base_delay_ms: 1, jitter: 0}}';
    const options = (run: () => unknown) => ({ data, config, backends: [{ name: 'f', types: { t: run } }] });
    const { promise: began, resolve: begin } = Promise.withResolvers<void>();
    const hung = () => {
      runs.push(1);
      begin();
      return never;
    };
    const env = withoutDrain();
    const first = await start(t, { ...options(hung), env });
    await first.submit({ job_id: 'a', type: 't' });
    await began;
    while ((await first.get('a')).state !== 'running') await turns(1);
    await first.stop();
    const second = await start(t, { ...options(() => runs.push(2)), env });
    const job = await second.wait('a');
    assert.deepEqual([job.state, job.tries, runs], ['succeeded', 1, [1, 2]]);
    assert.deepEqual(
      job.attempts.map(({ state }) => state),
      ['abandoned', 'ended'],
    );
  },
);

/** DRAIN_MS of src/app/settings.ts: how long a stop waits for work that would be lost. */
const DRAIN_MS = 10_000;

/** Timers with which a stop waits no longer than a moment for work that never ends. */
function withoutDrain(): Env {
  const real = realEnv();
  const after: Timers['after'] = (ms, run) => real.timers.after(ms === DRAIN_MS ? 1 : ms, run);
  return { ...real, timers: { ...real.timers, after } };
}

onStores('every start is a new epoch of the same owner', LASTING, async (t, data) => {
  const seen: (readonly [string, number])[] = [];
  for (let round = 1; round <= 3; round++) {
    const orchestrator = await start(t, { data, backends: [] });
    const { brain } = engineOf(orchestrator).state;
    seen.push([brain!.owner, brain!.epoch]);
    await orchestrator.stop();
  }
  const owner = seen[0]![0];
  assert.deepEqual(
    seen,
    [1, 2, 3].map((epoch) => [owner, epoch]),
  );
});

onStores(
  'brain time never goes back, not over a restart with a clock that was put back',
  LASTING,
  async (t, data) => {
    let now = 2_000_000_000_000;
    const env = {
      ...realEnv(),
      clock: { now: () => now, monotonic: () => performance.now(), isMadeUp: true as const },
    };
    for (const checkpointed of [false, true]) {
      const first = await start(t, { data, env, backends: [] });
      const { job_id: early } = await first.submit({});
      const { created_at } = await first.get(early);
      now -= 3_600_000;
      if (checkpointed) await first.checkpoint();
      await first.stop();
      const second = await start(t, { data, env, backends: [] });
      const { job_id: late } = await second.submit({});
      assert.ok(
        (await second.get(late)).created_at >= created_at,
        checkpointed ? 'after a checkpoint' : 'at once',
      );
      await second.stop();
    }
  },
);

onStores(
  '[FANO-4] attempt numbers go on after a job was purged and its id chosen again',
  LASTING,
  async (t, data) => {
    const stage = new Stage();
    t.after(() => stage.endAll());
    let later = 0;
    const real = realEnv();
    const clock = { now: () => real.clock.now() + later, monotonic: () => real.clock.monotonic() + later };
    // The purge, due once a minute, runs when this test says so.
    const purges: (() => void)[] = [];
    const timers = {
      soon: real.timers.soon,
      after: (ms: number, run: () => void) => {
        if (ms !== 60_000) return real.timers.after(ms, run);
        purges.push(run);
        return () => undefined;
      },
    };
    const config = 'orchestrator: {retention: {history_sec: 10}}';
    const orchestrator = await start(t, { data, env: { ...real, clock, timers }, backends: [stage], config });
    await orchestrator.submit({ job_id: 'mine' });
    await stage.startedCount(1);
    stage.endAll();
    await orchestrator.wait('mine');
    while (engineOf(orchestrator).state.jobs.has('mine')) await turns(1);
    later = 20_000;
    for (const purge of purges.splice(0)) purge();
    const isThere = (): Promise<boolean> =>
      orchestrator.get('mine').then(
        () => true,
        () => false,
      );
    while (await isThere()) await turns(1);
    const again = await orchestrator.submit({ job_id: 'mine' });
    assert.equal(again.duplicate_of, undefined);
    await stage.startedCount(2);
    assert.deepEqual(stage.started, ['mine:1', 'mine:2']);
  },
);
