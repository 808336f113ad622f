import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { onStores, refusalOf, STORES, start, startInline, tempFolder, turns, within } from './flow-kit.ts';
import { Stage } from './stage.ts';
import { VirtualEnv } from './virtual-env.ts';

async function begin(
  t: TestContext,
  data: string,
  info: ConstructorParameters<typeof Stage>[0] = {},
): Promise<{ stage: Stage; orchestrator: Orchestrator }> {
  const stage = new Stage(info);
  t.after(() => stage.endAll());
  const config =
    'orchestrator: {cancel_deadline_ms: 50, retry: {base_delay_ms: 100000, max_delay_ms: 100000}}';
  return { stage, orchestrator: await start(t, { data, backends: [stage], config }) };
}

onStores('a job can be cancelled in every phase of its life', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data, { types: ['run'], slots: 3 });
  await orchestrator.submit({ job_id: 'waits', type: 'nobody' });
  await orchestrator.submit({ job_id: 'later', not_before: 4e12 });
  await orchestrator.submit({ job_id: 'runs', type: 'run', session_id: 's' });
  await orchestrator.submit({ job_id: 'parked', type: 'run', session_id: 's' });
  await orchestrator.submit({ job_id: 'retries', type: 'run' });
  await stage.startedCount(2);
  stage.end('retries:1', { ok: false, error: { code: 'WORKER_TIMEOUT', message: 'x', retriable: true } });
  while ((await orchestrator.get('retries')).tries === 0) await turns(1);
  for (const id of ['waits', 'later', 'parked', 'retries']) {
    assert.equal((await orchestrator.cancel(id)).state, 'cancelled', id);
  }
  assert.equal((await orchestrator.cancel('runs')).cancel_requested, true);
  const job = await within(orchestrator.wait('runs'));
  assert.deepEqual([job.state, job.error?.code], ['cancelled', 'CANCELLED']);
  assert.ok(stage.kills.includes('runs:1'));
  assert.equal((await orchestrator.cancel('runs')).state, 'cancelled', 'again does no harm');
  assert.equal(stage.started.length, 2);
});

test('[ORCH-1072] a cancel reaches the work at once: no time passes until it does', async (t) => {
  const virtual = new VirtualEnv();
  const stage = new Stage();
  const orchestrator = await startInline(t, { data: tempFolder(t), env: virtual.env(), backends: [stage] });
  await orchestrator.submit({ job_id: 'a' });
  await stage.startedCount(1);
  const before = virtual.now;
  await orchestrator.cancel('a');
  await stage.until(() => stage.kills.includes('a:1'));
  assert.equal((await within(orchestrator.wait('a'))).state, 'cancelled');
  assert.equal(virtual.now, before);
});

onStores(
  'the caller waits no longer than the cancel deadline for a backend that does not obey',
  STORES,
  async (t, data) => {
    const { stage, orchestrator } = await begin(t, data);
    stage.obeys = false;
    await orchestrator.submit({ job_id: 'a' });
    await stage.startedCount(1);
    await orchestrator.cancel('a');
    const job = await within(orchestrator.wait('a'));
    assert.equal(job.state, 'cancelled');
    assert.equal(stage.running, 1, 'it still runs, and keeps its slot');
    assert.equal(engineOf(orchestrator).queue.fleet.usedSlots('stage'), 1);
    stage.end('a:1', { ok: 'cancelled' });
    while (engineOf(orchestrator).queue.fleet.usedSlots('stage') > 0) await turns(1);
    assert.equal((await orchestrator.get('a')).state, 'cancelled');
  },
);

onStores('a cancel reaches the children, also those that run', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data, { slots: 2 });
  await orchestrator.submit({ job_id: 'parent' });
  await orchestrator.submit({ job_id: 'child', parent_id: 'parent' });
  await orchestrator.submit({ job_id: 'grandchild', parent_id: 'child' });
  await stage.startedCount(2);
  await orchestrator.cancel('parent');
  for (const id of ['parent', 'child', 'grandchild']) {
    assert.equal((await within(orchestrator.wait(id))).state, 'cancelled', id);
  }
  assert.deepEqual([...new Set(stage.kills)].sort(), ['child:1', 'parent:1']);
});

for (const where of ['memory', 'history']) {
  onStores(`a cancel reaches the children of a job that is over and in ${where}`, STORES, async (t, data) => {
    const { stage, orchestrator } = await begin(t, data, { types: ['run'] });
    await orchestrator.submit({ job_id: 'parent', type: 'run' });
    await orchestrator.submit({ job_id: 'child', parent_id: 'parent' });
    await stage.startedCount(1);
    stage.endAll();
    await orchestrator.wait('parent');
    while (where === 'history' && engineOf(orchestrator).state.jobs.has('parent')) await turns(1);
    assert.equal((await orchestrator.cancel('parent')).state, 'succeeded');
    assert.equal((await orchestrator.get('child')).state, 'cancelled');
  });
}

onStores('a function that is cancelled sees its signal', STORES, async (t, data) => {
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const { promise: began, resolve: begin } = Promise.withResolvers<void>();
  const wait = (_: never, { signal }: { signal: AbortSignal }): Promise<never> =>
    new Promise((_, reject) => {
      begin();
      signal.addEventListener('abort', () => {
        resolve();
        reject(new Error('stopped'));
      });
    });
  const orchestrator = await start(t, { data, backends: [{ name: 'f', types: { wait } }] });
  await orchestrator.submit({ job_id: 'a', type: 'wait' });
  await began;
  await orchestrator.cancel('a');
  await within(aborted);
  assert.equal((await within(orchestrator.wait('a'))).state, 'cancelled');
});

onStores(
  'a held unknown whose timeout was ordered is asked about with pauses, not in a frenzy',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    t.after(() => stage.endAll());
    const config = 'orchestrator: {cancel_deadline_ms: 60000}';
    const orchestrator = await start(t, { data, backends: [stage], config });
    await orchestrator.submit({ job_id: 'a', timeout_ms: 1, on_unknown: 'hold' });
    await stage.startedCount(1);
    let kills = 0;
    // The executor was started anew and knows nothing of what it ran before.
    const memory = { registry: 'another', rememberedSince: 0 };
    stage.kill = async () => {
      kills++;
      return { is: 'tombstoned', ...memory };
    };
    stage.inspect = async () => ({ ...memory, known: new Map() });
    stage.follow = async () => ({ is: 'lost' });
    while ((await orchestrator.get('a')).state !== 'stale') await turns(1);
    const before = kills;
    await turns(2000);
    assert.ok(kills - before < 20, `${kills - before} kills`);
    const settled = await orchestrator.resolve('a', { as: 'succeeded', result: 1 });
    assert.equal(settled.state, 'succeeded');
  },
);

onStores(
  'a held unknown is settled by an operator: as retry, as failed, as succeeded',
  STORES,
  async (t, data) => {
    const { stage, orchestrator } = await begin(t, data, { slots: 3 });
    // The holder gives no answer to the offer and has no memory of it afterwards.
    stage.answer = () => Promise.reject(new Error('no answer'));
    stage.inspect = async () => ({ registry: 'another', rememberedSince: 0, known: new Map() });
    const ids = ['retry', 'failed', 'succeeded'];
    for (const job_id of ids) await orchestrator.submit({ job_id, max_tries: 1 });
    for (const id of ids) {
      while ((await orchestrator.get(id)).waiting?.code !== 'unknown_outcome') await turns(1);
    }
    assert.equal(engineOf(orchestrator).queue.fleet.usedSlots('stage'), 3, 'each holds its slot');
    stage.answer = () => undefined;
    await orchestrator.resolve('retry', { as: 'retry' });
    await stage.startedCount(1);
    assert.equal((await orchestrator.resolve('failed', { as: 'failed', message: 'seen' })).state, 'dead');
    const done = await orchestrator.resolve('succeeded', { as: 'succeeded', result: { by: 'hand' } });
    assert.deepEqual([done.state, done.result], ['succeeded', { by: 'hand' }]);
    stage.endAll();
    assert.equal((await within(orchestrator.wait('retry'))).state, 'succeeded');
    assert.deepEqual(stage.started, ['retry:2']);
    assert.equal(
      (await refusalOf(() => orchestrator.resolve('retry', { as: 'retry' }))).code,
      'ILLEGAL_STATE',
    );
  },
);
