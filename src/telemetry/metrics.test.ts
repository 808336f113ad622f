import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FAILED, FAILED_FOR_NOW, SETTINGS, SUCCESS } from '../../test/fakes/engine-kit.ts';
import { GB } from '../../test/fakes/pool-engine.ts';
import { WatchedPools } from '../../test/fakes/watched-pools.ts';
import { ScanCounts } from '../adapters/modules/scan-counts.ts';
import type { Outcome } from '../core/ports/backend.ts';
import type { WorkerPoolOrder } from '../core/workers/worker-pools.ts';
import { OrchdError } from '../model/errors.ts';
import { accept, end, newAttempt } from '../model/moves.ts';
import { countsOf } from '../model/usage.ts';
import type { WorkerPoolSpec } from '../model/worker-pool-record.ts';
import { type ObservedState, observedStateOf } from '../runtime/observer.ts';
import type { Route } from '../wire/route.ts';
import { Metrics } from './metrics.ts';
import { Tally } from './tally.ts';

const A = 'file:/models/a.gguf';
const B = 'file:/models/b.gguf';

class Counted extends WatchedPools {
  readonly tally = new Tally({ algorithm: 'round-robin' });
  readonly metrics = new Metrics({ reads: this.reads, following: { followers: 3 } }, this.tally);

  /** Submits a job and tells the tally what a brain would. */
  asks(id: string, model: string, tenant?: string): void {
    const { predictedStartMs } = this.submit(id, { type: 'inference', model, ...(tenant && { tenant }) });
    const predicted = predictedStartMs !== undefined && { predicted_start_ms: predictedStartMs };
    const uid = tenant === undefined ? id : `${tenant}~${id}`;
    this.tally.submitted({ ...predicted }, uid, observedStateOf(this.engine));
  }

  run(id: string, ms: number): void {
    this.accept(id);
    this.now += ms;
    this.end(id, SUCCESS);
  }

  /** The value of a metric without labels. */
  async value(name: string): Promise<number | undefined> {
    return Object.values(await this.series(name))[0];
  }

  /** The series of a metric, by their labels as they are written. */
  async series(name: string): Promise<Record<string, number>> {
    const lines = (await this.metrics.render()).split('\n');
    const found = lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
    return Object.fromEntries(
      found.map((line) => [labelsOf(line), Number(line.slice(line.lastIndexOf(' ')))]),
    );
  }
}

const labelsOf = (line: string): string =>
  line.slice(line.indexOf('{') + 1, line.lastIndexOf('}')).replaceAll('"', '');

function counted(devicesGb: readonly number[] = [10]): Counted {
  const kit = new Counted({ minResidentMs: 0, drainAfterMs: 1000, startTries: 1 });
  kit.model('a');
  kit.model('b');
  kit.watch(kit.tally);
  kit.pool('p', devicesGb);
  return kit;
}

const overrun = (tokens: number): Outcome => ({
  ok: true,
  result: '"done"',
  usage: { ...countsOf({ prompt_tokens: 0, completion_tokens: tokens }), decodeMs: 1 },
});

/** Every attempt costs 20, and all together may cost 100. */
function priced(kit: Counted): void {
  kit.step({ type: 'prices', prices: [{ model: '*', request: 20 }], by: 'test' });
  kit.step({ type: 'limits', limits: [{ scope: 'global', costBudget: 100 }], by: 'test' });
}

/** A little of everything, so that every metric has a series. */
function orderPool(kit: Counted, id: string, order: WorkerPoolOrder): void {
  kit.step({ type: 'worker-pool', id, order, by: 'op' });
}

function createPool(
  kit: Counted,
  id: string,
  spec: Pick<WorkerPoolSpec, 'provisioner' | 'model' | 'desired'>,
): void {
  const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
  orderPool(kit, id, { is: 'create', spec: { ...named, ...spec, holdMs: 0 } });
}

function eventful(): Counted {
  const kit = counted();
  priced(kit);
  kit.asks('one', 'a');
  kit.now += 700;
  kit.obey();
  kit.run('one', 100);
  for (const id of ['two', 'three']) kit.asks(id, 'a');
  kit.run('two', 100);
  kit.run('three', 100);
  kit.asks('four', 'b');
  kit.obey();
  kit.dies('p', kit.workerIdOf('four'));
  kit.tally.refused(new OrchdError('QUEUE_FULL'));
  kit.backend('here', { types: ['t'] });
  kit.submit('five');
  kit.run('five', 1);
  kit.pass(SETTINGS.backoff.maxDelayMs);
  kit.obey();
  createPool(kit, 'w', { provisioner: 'external', model: undefined, desired: 1 });
  const { tally } = kit;
  used(kit, observedStateOf(kit.engine));
  const route = { method: 'GET', path: '/v2/tasks/:id' } as Route;
  tally.http.answered({ route, method: 'GET', status: 200, isStream: false, tookMs: 1 });
  tally.http.bodyRefused('TOO_LARGE');
  tally.modules.scanned('finder', 'ok', new ScanCounts());
  tally.modules.handled('finder', 'ok');
  tally.runs.step({ event: 'llm_call', role: 'primary', outcome: 'succeeded' }, 1);
  tally.storage.synced('log', 1);
  tally.storage.sizes = { parts: new Map([['log', 1]]), freeBytes: 1 };
  const consumer = {
    pool: 'p',
    name: 'c',
    token: 'c',
    slots: 1,
    types: ['pulled'],
    models: undefined,
    labels: {},
  };
  kit.step({ type: 'consumer', declared: { ...consumer, paid: false, listens: undefined, ttlMs: 60_000 } });
  return kit;
}

/** An attempt of the job `one` ends with success. */
function used({ tally }: Counted, observed: ObservedState): void {
  const usage = countsOf({ prompt_tokens: 10, completion_tokens: 5 });
  const start = newAttempt({ job: 'one', n: 9, backend: 'b', registry: undefined, epoch: 1, at: 0 });
  const after = end(accept(start, 0, 1), 1, 'succeeded', { usage });
  tally.changed([{ kind: 'attempt', id: 'one:9', after, cause: 'succeeded' }], 0, observed);
}

test('what was dispatched is counted by worker and outcome, and goes with the worker', async () => {
  const kit = counted();
  kit.backend('here', { types: ['t'] });
  kit.submit('local');
  kit.run('local', 1);
  for (const id of ['one', 'two']) kit.asks(id, 'a');
  kit.obey();
  const worker = kit.workerIdOf('one');
  kit.accept('one');
  assert.equal((await kit.series('orchd_worker_connections_active'))[`worker_id=${worker}`], 1);
  kit.end('one', SUCCESS);
  kit.end('two', FAILED);
  const series = await kit.series('orchd_tasks_dispatched_total');
  const of = (id: string, outcome: string) => series[`worker_id=${id},outcome=${outcome}`];
  assert.deepEqual([of(worker, 'succeeded'), of(worker, 'failed'), of(worker, 'cancelled')], [1, 1, 0]);
  assert.equal(of('here', 'succeeded'), 1);
  kit.dies('p', worker);
  const left = await kit.metrics.render();
  assert.ok(!left.includes(worker), 'nothing is left of a worker that is gone');
  assert.equal((await kit.series('orchd_tasks_dispatched_total'))['worker_id=here,outcome=succeeded'], 1);
});

test('a job that was turned away busy, or cancelled, is counted so', async () => {
  const kit = counted();
  kit.backend('here', { types: ['t'] });
  kit.submit('one');
  kit.now += 400;
  kit.offered('one', { is: 'busy' });
  kit.killed('one', { is: 'tombstoned' });
  kit.pass(SETTINGS.busyPauseMs);
  kit.cancel('one');
  kit.killed('one', { is: 'ended', outcome: { ok: 'cancelled' } });
  assert.deepEqual(await kit.series('orchd_tasks_dispatched_total'), {
    'worker_id=here,outcome=succeeded': 0,
    'worker_id=here,outcome=failed': 0,
    'worker_id=here,outcome=cancelled': 1,
    'worker_id=here,outcome=turned_away': 0,
    'worker_id=here,outcome=waits': 0,
    'worker_id=here,outcome=abandoned': 1,
  });
  assert.equal((await kit.series('orchd_scheduling_latency_ms_count'))['algorithm=round-robin'], 2);
  const waited = await kit.series('orchd_scheduling_latency_ms_sum');
  assert.equal(waited['algorithm=round-robin'], SETTINGS.busyPauseMs, 'again from when it was given back');
});

test('the time from ready to claim is spread over buckets, a second try counting from when it may start', async () => {
  const kit = counted();
  kit.asks('one', 'a');
  kit.now += 300;
  kit.obey();
  kit.accept('one');
  kit.now += 5000;
  kit.end('one', FAILED_FOR_NOW);
  kit.pass(1000);
  const buckets = await kit.series('orchd_scheduling_latency_ms_bucket');
  const upTo = (le: string) => buckets[`le=${le},algorithm=round-robin`];
  assert.deepEqual([upTo('1'), upTo('250'), upTo('500'), upTo('+Inf')], [1, 1, 2, 2]);
  assert.deepEqual(await kit.series('orchd_scheduling_latency_ms_sum'), { 'algorithm=round-robin': 300 });
  assert.deepEqual(await kit.series('orchd_scheduling_latency_ms_count'), { 'algorithm=round-robin': 2 });
});

test('workers are counted by pool, model and status, and what became of them by model and reason', async () => {
  const kit = counted();
  kit.asks('one', 'a');
  assert.deepEqual(await kit.series('orchd_workers'), { [`pool_id=p,model_ref=${A},status=starting`]: 1 });
  kit.now += 900;
  kit.obey();
  assert.deepEqual(await kit.series('orchd_cold_start_ms_sum'), { [`model_ref=${A}`]: 900 });
  assert.deepEqual(await kit.series('orchd_pool_vram_bytes'), { 'pool_id=p,gpu_id=0': 10 * GB });
  assert.deepEqual(await kit.series('orchd_pool_vram_available_bytes'), { 'pool_id=p,gpu_id=0': 0 });
  kit.accept('one');
  kit.asks('two', 'b');
  kit.pass(1000);
  assert.deepEqual(await kit.series('orchd_workers'), { [`pool_id=p,model_ref=${A},status=draining`]: 1 });
  kit.end('one', SUCCESS);
  kit.obey();
  assert.deepEqual(
    await kit.series('orchd_worker_evictions_total'),
    { [`model_ref=${A},reason=room`]: 1 },
    'a drain and the stop after it are one',
  );
  assert.deepEqual(await kit.series('orchd_worker_starts_total'), {
    [`model_ref=${A},reason=demand`]: 1,
    [`model_ref=${B},reason=demand`]: 1,
  });
  kit.dies('p', kit.workerIdOf('two'));
  kit.broken.add(B);
  kit.obey();
  assert.deepEqual(await kit.series('orchd_worker_failures_total'), { [`model_ref=${B},reason=died`]: 1 });
  kit.pass(SETTINGS.backoff.maxDelayMs);
  kit.obey();
  const failures = await kit.series('orchd_worker_failures_total');
  assert.equal(failures[`model_ref=${B},reason=start_failed`], 1);
  kit.step({ type: 'pool-lost', id: 'p' });
  assert.deepEqual(await kit.series('orchd_pool_up'), { 'pool_id=p': 0 });
});

test('what was told of a start is compared with it, also in another tenant, and not for those who never start', async () => {
  const kit = counted();
  kit.asks('one', 'a');
  kit.obey();
  kit.run('one', 100);
  assert.equal(kit.tally.predictionError.count, 1, 'how long a worker takes to start was told');
  kit.asks('two', 'a');
  kit.asks('three', 'a', 'other');
  // More than are remembered.
  for (let n = 0; n < 1100; n++) {
    kit.asks(`gone-${n}`, 'a');
    kit.cancel(`gone-${n}`);
  }
  kit.asks('four', 'a');
  kit.run('two', 100);
  kit.run('other~three', 100);
  assert.equal(kit.tally.predictionError.count, 3, 'one, three and four');
  const { median } = kit.tally.predictionError;
  assert.deepEqual(await kit.series('orchd_predicted_start_error_ratio'), {
    'quantile=0.5': median,
    'quantile=0.9': kit.tally.predictionError.quantile(0.9),
  });
});

test('predictions of jobs that wait are kept up to a bound', () => {
  const kit = counted();
  kit.backend('here', { types: ['t'], slots: 0 });
  kit.submit('waiting');
  const waiting = kit.engine.state.jobs.get('waiting');
  const observed = { ...observedStateOf(kit.engine), job: () => waiting };
  for (let n = 0; n < 5000; n++) kit.tally.submitted({ predicted_start_ms: 10 }, `j${n}`, observed);
  kit.asks('j4999', 'a');
  kit.asks('j5', 'a');
  kit.obey();
  assert.equal(kit.state('j4999'), 'claimed');
  assert.equal(kit.tally.predictionError.count, 0, 'it came when there were enough');
  kit.run('j4999', 1);
  assert.equal(kit.tally.predictionError.count, 1, 'that of j5');
});

test('however many models there are, what is counted by model has a bound', async () => {
  const kit = counted();
  kit.asks('one', 'a');
  const [, worker] = [...kit.engine.state.workers.entries()][0]!;
  for (let n = 0; n < 3000; n++) {
    const after = { ...worker, modelRef: `demo:${n}` };
    kit.tally.changed(
      [{ kind: 'worker', id: `w${n}`, after, cause: { is: 'start', why: { is: 'demand' } } }],
      kit.now,
      observedStateOf(kit.engine),
    );
  }
  const starts = await kit.series('orchd_worker_starts_total');
  assert.ok(Object.keys(starts).length <= 1001);
  assert.equal(starts['model_ref=other,reason=demand'], 2001);
});

test('ends are counted by state and by reason of death, and the counts never fall', async () => {
  const kit = counted();
  kit.backend('here', { types: ['t'], slots: 3 });
  const states = () => kit.series('orchd_jobs_ended_total');
  const deaths = () => kit.series('orchd_jobs_dead_total');
  assert.deepEqual(await states(), { 'state=succeeded': 0, 'state=cancelled': 0, 'state=dead': 0 });
  for (const id of ['good', 'bad', 'unwanted']) kit.submit(id);
  kit.run('good', 1);
  kit.accept('bad');
  kit.end('bad', FAILED);
  kit.cancel('unwanted');
  kit.killed('unwanted', { is: 'ended', outcome: { ok: 'cancelled' } });
  const ended = { 'state=succeeded': 1, 'state=cancelled': 1, 'state=dead': 1 };
  const none = { 'reason=dropped': 0, 'reason=expired': 0, 'reason=killed': 0, 'reason=dependency': 0 };
  const dead = { 'reason=failed': 1, ...none };
  assert.deepEqual([await states(), await deaths()], [ended, dead]);
  kit.tally.recovered();
  assert.deepEqual([await states(), await deaths()], [ended, dead], 'another brain begins in this process');
  const now = await kit.series('orchd_jobs');
  assert.deepEqual(
    Object.keys(now),
    ['queued', 'claimed', 'running', 'waiting', 'stale', 'failed'].map((state) => `state=${state}`),
    'of ended jobs only those are known that have not left memory',
  );
});

test('turns of conversations are counted by where they start, and those that have waited for it', async () => {
  const kit = new Counted();
  kit.watch(kit.tally);
  const thread = { id: 't', messages: 2, hash: 'h' };
  const say = (id: string): void => {
    kit.accept(id);
    kit.pass(1000);
    kit.end(id, { ok: true, result: '"said"', thread });
  };
  const turns = () => kit.series('orchd_conversation_turns_total');
  const waits = () => kit.series('orchd_sticky_waits_total');
  kit.backend('a');
  kit.submit('s1', { session_id: 's' });
  say('s1');
  kit.submit('s2', { session_id: 's' });
  say('s2');
  assert.deepEqual(await turns(), { 'context=held': 1, 'context=moved': 0, 'context=new': 1 });
  kit.submit('other');
  kit.backend('b');
  kit.submit('s3', { session_id: 's' });
  assert.equal(await kit.value('orchd_jobs_parked_sticky'), 1);
  kit.run('other', 1);
  say('s3');
  assert.equal(await kit.value('orchd_jobs_parked_sticky'), 0);
  assert.deepEqual(await waits(), { 'context=held': 1, 'context=moved': 0 });
  const seat = kit.job('s3').job.backend as string;
  kit.submit('another');
  assert.equal(kit.job('another').job.backend, seat === 'a' ? 'b' : 'a');
  kit.submit('third');
  kit.submit('s4', { session_id: 's' });
  kit.engine.queue.fleet.setUp(seat, false);
  kit.run('another', 1);
  kit.pass(1);
  assert.deepEqual(await waits(), { 'context=held': 1, 'context=moved': 1 });
  assert.deepEqual(await turns(), { 'context=held': 2, 'context=moved': 1, 'context=new': 1 });
});

test('both names of the queue depth mean the jobs that are ready to run', async () => {
  const kit = counted();
  kit.backend('here', { types: ['t'], slots: 0 });
  kit.submit('ready', { priority: 'interactive' });
  kit.submit('batch', { priority: 'batch' });
  kit.submit('parked', { not_before: kit.now + 1000 });
  assert.deepEqual(await kit.series('orchd_queue_depth'), { 'priority=interactive': 1, 'priority=batch': 1 });
  assert.deepEqual(Object.values(await kit.series('queue_depth')), [2]);
  assert.equal((await kit.series('orchd_jobs'))['state=queued'], 3);
});

test('tokens are counted by model, up to a number of models', async () => {
  const kit = counted();
  kit.asks('one', 'a');
  const observed = observedStateOf(kit.engine);
  for (let n = 0; n < 2; n++) used(kit, observed);
  const job = observed.job('one')!;
  for (let n = 0; n < 1500; n++) {
    const other = { ...job, ask: { ...job.ask, modelRef: `demo:${n}` } };
    used(kit, { ...observed, job: () => other });
  }
  const series = await kit.series('orchd_model_tokens_total');
  assert.equal(series[`model_ref=${A},direction=in`], 20);
  assert.equal(series[`model_ref=${A},direction=out`], 10);
  assert.equal(series['model_ref=other,direction=in'], 5010);
  assert.equal(Object.keys(series).length, 2002);
});

test('costs are counted by model and by how they are known, up to a number of models', async () => {
  const kit = counted();
  priced(kit);
  kit.asks('one', 'a');
  kit.obey();
  assert.equal(await kit.value('orchd_cost_reserved_millionths'), 20);
  kit.run('one', 100);
  assert.equal(await kit.value('orchd_cost_reserved_millionths'), 0);
  const told = `model_ref=${A},basis=told`;
  const assumed = `model_ref=${A},basis=assumed`;
  assert.deepEqual(await kit.series('orchd_cost_millionths_total'), { [told]: 20, [assumed]: 0 });
  kit.step({ type: 'prices', prices: [{ model: '*', output: 1_000_000, request: 7 }], by: 'test' });
  kit.asks('two', 'a');
  kit.run('two', 1);
  const series = await kit.series('orchd_cost_millionths_total');
  assert.equal(series[told], 20);
  assert.ok((series[assumed] ?? 0) >= 7, 'the backend has not said what it used');
  const observed = observedStateOf(kit.engine);
  const job = observed.job('two')!;
  const closed = job.past?.at(-1);
  assert.ok(closed);
  const routed = { kind: 'attempt', id: 'two:2', after: { ...closed, model: 'b' }, cause: 'failed' } as const;
  kit.tally.changed([routed], 0, observed);
  const onB = (await kit.series('orchd_cost_millionths_total'))[`model_ref=${B},basis=assumed`];
  assert.equal(onB, series[assumed], 'the model to which its route has sent the job');
  for (let n = 0; n < 1500; n++) {
    const other = { ...job, ask: { ...job.ask, modelRef: `demo:${n}` } };
    const change = { kind: 'attempt', id: 'two:1', after: closed, cause: 'succeeded' } as const;
    kit.tally.changed([change], 0, { ...observed, job: () => other });
  }
  assert.equal(Object.keys(await kit.series('orchd_cost_millionths_total')).length, 2002);
});

test('budgets that name their scope are shown with their share, in their window only; jobs at gates are counted', async () => {
  const kit = counted();
  kit.backend('here', { types: ['t'], slots: 9 });
  kit.step({ type: 'prices', prices: [{ model: '*', request: 20 }], by: 'test' });
  const limits = [
    { scope: 'global', costBudget: 100, window: 'hour' },
    { scope: 'agent:*', costBudget: 40, hard: true },
    { scope: 'tenant:idle', costBudget: 0 },
  ] as const;
  kit.step({ type: 'limits', limits, by: 'test' });
  const own = [{ scope: 'tenant:idle', costBudget: 7 }];
  kit.step({ type: 'limits', limits: own, by: 'idle', tenant: 'idle' });
  for (const id of ['a', 'b', 'c']) kit.submit(id);
  kit.run('a', 1);
  const global = async (): Promise<(number | undefined)[]> => {
    const shares = await kit.series('orchd_budget_used_ratio');
    assert.equal(Object.keys(shares).length, 4, 'those of patterns and of tenants are left out');
    return ['spent', 'reserved'].map((part) => shares[`scope=global,part=${part}`]);
  };
  assert.deepEqual(await global(), [0.2, 0.2]);
  assert.equal(await kit.value('orchd_jobs_parked_quota'), 1);
  kit.now += 3_600_000;
  assert.deepEqual(await global(), [0, 0.2]);
});

test('a bill over its bound is counted with its excess, and its seat as paused', async () => {
  const kit = counted();
  kit.backend('seat', { types: ['t'], models: ['x'], paid: true });
  kit.step({ type: 'prices', prices: [{ model: 'x', output: 1_000_000 }], by: 'test' });
  kit.step({ type: 'limits', limits: [{ scope: 'global', costBudget: 1000, hard: true }], by: 'test' });
  kit.submit('a', { model: 'x', maxOutput: 10, messages: 1 });
  kit.accept('a');
  kit.end('a', overrun(15));
  assert.equal(await kit.value('orchd_cost_overruns_total'), 1);
  assert.equal(await kit.value('orchd_cost_overrun_millionths_total'), 5);
  assert.equal(await kit.value('orchd_seats_paused'), 1);
});

test('a brain that begins in the same process goes on counting, without the workers of the last one', async () => {
  const kit = eventful();
  const before = await kit.series('orchd_scheduling_latency_ms_count');
  kit.tally.recovered();
  assert.deepEqual(await kit.series('orchd_tasks_dispatched_total'), {});
  assert.deepEqual(await kit.series('orchd_scheduling_latency_ms_count'), before);
});

test('the memory of devices and the workers of worker pools have the names that autoscalers know', async () => {
  const kit = counted();
  kit.pool('metered', [40, 10], { usedGb: 5 });
  assert.deepEqual(await kit.series('gpu_orchestrator_gpu_mem_used_pct'), {
    'pool_id=metered,gpu_index=0': 12.5,
    'pool_id=metered,gpu_index=1': 50,
    'pool_id=p,gpu_index=0': 0,
  });
  const order = (id: string, order: WorkerPoolOrder): void => void orderPool(kit, id, order);
  createPool(kit, 'w', { provisioner: 'managers', model: 'a', desired: 2 });
  for (const id of ['out', 'over'])
    createPool(kit, id, { provisioner: 'external', model: undefined, desired: 5 });
  kit.obey();
  for (const [id, spawned] of [
    ['out', 3],
    ['over', 1],
  ] as const)
    order(id, { is: 'heartbeat', spawned });
  order('over', { is: 'evict' });
  const workers = { 'pool_id=w': 2, 'pool_id=out': 3, 'pool_id=over': 1 };
  assert.deepEqual(await kit.series('gpu_orchestrator_worker_pool_workers'), workers);
  assert.equal(await kit.value('gpu_orchestrator_worker_pools_total'), 2);
  order('over', { is: 'heartbeat', spawned: 0 });
  const { 'pool_id=over': _, ...left } = workers;
  assert.deepEqual(await kit.series('gpu_orchestrator_worker_pool_workers'), left);
});

interface Family {
  readonly kind: string;
  readonly labels: string[];
}

const PAGE = join(import.meta.dirname, '../../docs/operations/metrics.md');

function documented(): Map<string, Family> {
  const rows = readFileSync(PAGE, 'utf8').matchAll(/^\| `(\w+)` \| (\w+) \| ([^|]*)\|/gm);
  return new Map(
    Array.from(rows, ([, name = '', kind = '', labels = '']) => [
      name,
      { kind, labels: Array.from(labels.matchAll(/`(\w+)`/g), ([, label = '']) => label).sort() },
    ]),
  );
}

function measured(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  for (const block of text.trim().split('\n\n')) {
    const [, name = '', kind = ''] = /^# TYPE (\w+) (\w+)$/m.exec(block) ?? [];
    const labels = new Set(Array.from(block.matchAll(/(?<=[{,])(\w+)="/g), ([, label = '']) => label));
    labels.delete('le');
    families.set(name, { kind, labels: [...labels].sort() });
  }
  return families;
}

test('docs/operations/metrics.md has every metric with its kind and labels, and no other', async () => {
  const text = await eventful().metrics.render();
  const known = [...documented()].toSorted();
  assert.ok(known.length > 15);
  assert.deepEqual(known, [...measured(text)].toSorted());
  for (const [name] of known) assert.match(text, new RegExp(`^# HELP ${name} \\S`, 'm'));
});
