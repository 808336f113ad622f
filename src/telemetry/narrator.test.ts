import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAILED, FAILED_FOR_NOW, SUCCESS } from '../../test/fakes/engine-kit.ts';
import { WatchedPools } from '../../test/fakes/watched-pools.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { createLogger, type LogLevel } from '../kit/logger.ts';
import { errorInfo } from '../model/errors.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import { MONEY_SENTENCES, Narrator, SENTENCES, WORKER_SENTENCES } from './narrator.ts';

type Line = Record<string, unknown> & { event: Record<string, string> };

class Told extends WatchedPools {
  readonly lines: Line[] = [];

  listen(level: LogLevel = 'info'): this {
    const write = (line: string): void => void this.lines.push(JSON.parse(line));
    this.watch(new Narrator(createLogger({ write, now: () => this.now, level })));
    return this;
  }

  about(field: 'job_id' | 'worker_id', value: string): Line[] {
    return this.lines.filter((line) => line[field] === value);
  }

  /** What was said of a worker, leaving out its jobs. */
  storyOf(worker: string): string[] {
    return this.about('worker_id', worker)
      .filter((line) => !('job_id' in line))
      .map((line) => line.event['type'] as string);
  }

  line(job: string, to: string): Line {
    const line = this.about('job_id', job).findLast(({ event }) => event['to'] === to);
    assert.ok(line, `nothing was said of ${job} being ${to}`);
    return line;
  }
}

function told(devicesGb: readonly number[] = [10], level?: LogLevel): Told {
  const kit = new Told({ minResidentMs: 0, drainAfterMs: 1000, startTries: 1 });
  kit.model('a');
  kit.model('b');
  kit.listen(level);
  kit.pool('p', devicesGb);
  return kit;
}

test('[ORCH-1090] a job is followed to its worker, pool and device, and the times are those of the try', () => {
  // The first device is too small for the model.
  const kit = told([1, 10]);
  kit.ask('one', 'a', { session_id: 's', correlationId: 'c' });
  kit.now += 7;
  kit.obey();
  const worker = kit.workerIdOf('one');
  kit.now += 2;
  kit.accept('one');
  kit.now += 40;
  kit.end('one', SUCCESS);
  const where = { backend: `p/${worker}`, worker_id: worker, pool_id: 'p', gpu_id: 1 };
  const who = { job_id: 'one', session_id: 's', model_ref: 'file:/models/a.gguf' };
  const fields = (to: string): Line => {
    const { timestamp: _, level: __, message: ___, app: ____, actor: _____, ...rest } = kit.line('one', to);
    return rest as Line;
  };
  const moved = (from: string, to: string) => ({ event: { type: 'state_transition', from, to } });
  assert.deepEqual(fields('queued'), {
    ...who,
    correlation_id: 'c',
    queue_position: 0,
    event: { type: 'admission', to: 'queued' },
  });
  const later = { ...who, ...where, correlation_id: 'c.1' };
  assert.partialDeepStrictEqual(fields('claimed'), {
    ...later,
    ...moved('queued', 'claimed'),
    scheduling_latency_ms: 7,
  });
  assert.deepEqual(fields('running'), { ...later, ...moved('claimed', 'running'), reason: 'started' });
  assert.deepEqual(fields('succeeded'), {
    ...later,
    ...moved('running', 'succeeded'),
    reason: 'succeeded',
    execution_latency_ms: 40,
  });
});

test('a second try waits from when it may start, and each try says how long it ran', () => {
  const kit = told();
  kit.ask('one', 'a');
  kit.obey();
  kit.accept('one');
  kit.now += 30;
  kit.end('one', FAILED_FOR_NOW);
  assert.equal(kit.line('one', 'failed')['execution_latency_ms'], 30);
  assert.equal(kit.line('one', 'queued')['queue_position'], undefined, 'it is parked');
  kit.pass(1000);
  assert.equal(kit.line('one', 'claimed')['scheduling_latency_ms'], 0);
  kit.accept('one');
  kit.now += 20;
  kit.end('one', FAILED);
  assert.equal(kit.line('one', 'dead')['execution_latency_ms'], 20);
  kit.now += 5000;
  kit.redrive('one');
  assert.equal(kit.line('one', 'claimed')['scheduling_latency_ms'], 0, 'a new life, not the age of the job');
  assert.equal(kit.line('one', 'queued').event['from'], 'dead');
});

test('a redriven job that had left memory comes back from the dead, and is not admitted a second time', () => {
  const kit = told();
  kit.ask('one', 'a');
  const { state } = kit.engine;
  const entry = state.jobs.get('one') as JobEntry;
  const { ask } = entry;
  const job = { ...entry.job, state: 'dead' as const };
  state.forget(entry);
  kit.lines.length = 0;
  kit.order({ type: 'redrive', uid: 'one', by: 'op', known: { ask, job, attempts: [] } });
  assert.deepEqual(
    kit.about('job_id', 'one').map(({ event }) => event),
    [{ type: 'state_transition', from: 'dead', to: 'queued' }],
  );
});

test('a job that ended while it waited has neither a worker nor a time', () => {
  const kit = told();
  kit.ask('one', 'a');
  kit.cancel('one');
  const line = kit.line('one', 'cancelled');
  assert.equal(line.event['from'], 'queued');
  for (const name of ['worker_id', 'gpu_id', 'pool_id', 'execution_latency_ms'])
    assert.ok(!(name in line), name);
});

test('[ORCH-1131] the reason of a worker is told only if it is a code: any other text may quote the job', () => {
  for (const [id, reason, shown] of [
    ['one', 'GPU_ON_FIRE', 'GPU_ON_FIRE'],
    ['two', 'the prompt was: hunter2', undefined],
  ] as const) {
    const kit = told();
    kit.ask(id, 'a');
    kit.obey();
    kit.accept(id);
    kit.end(id, { ok: false, error: { ...errorInfo('EXECUTION_FAILED', 'it said hunter2'), reason } });
    assert.equal(kit.line(id, 'dead')['error_reason'], shown);
    assert.doesNotMatch(JSON.stringify(kit.lines), /hunter2/);
  }
});

test('a worker that died is still named in the last lines of what ran on it', () => {
  const kit = told();
  kit.ask('one', 'a');
  kit.obey();
  kit.accept('one');
  const worker = kit.workerIdOf('one');
  kit.now += 9;
  kit.dies('p', worker);
  const line = kit.line('one', 'failed');
  assert.deepEqual([line['worker_id'], line['pool_id'], line['gpu_id']], [worker, 'p', 0]);
  assert.equal(line['execution_latency_ms'], 9);
  assert.deepEqual(kit.storyOf(worker), ['worker_ordered', 'worker_ready', 'worker_died']);
  assert.equal(kit.about('worker_id', worker).at(-1)?.['level'], 'warn');
});

test('a backend that is no worker goes by its name, and has no device', () => {
  const kit = told([]);
  kit.backend('here/w', { types: ['t'] });
  kit.submit('one');
  const line = kit.line('one', 'claimed');
  assert.equal(line['worker_id'], 'here/w');
  assert.ok(!('gpu_id' in line) && !('pool_id' in line));
});

test('[ORCH-1093] every key point is told in words: admission, placement, worker start, eviction, drain, stream start and end', () => {
  const kit = told();
  kit.ask('one', 'a');
  kit.now += 12;
  kit.obey();
  const first = kit.workerIdOf('one');
  kit.accept('one');
  kit.ask('two', 'b');
  kit.pass(1000);
  assert.deepEqual(kit.storyOf(first), ['worker_ordered', 'worker_ready', 'worker_draining']);
  kit.end('one', SUCCESS);
  kit.obey();
  assert.deepEqual(kit.storyOf(first).slice(3), ['worker_evicted', 'worker_gone']);
  const second = kit.workerIdOf('two');
  kit.accept('two');
  kit.end('two', SUCCESS);
  kit.broken.add('file:/models/a.gguf');
  kit.ask('three', 'a');
  kit.obey();
  assert.deepEqual(kit.storyOf(second), ['worker_ordered', 'worker_ready', 'worker_evicted', 'worker_gone']);

  const messages = kit.about('job_id', 'one').map((line) => line['message']);
  assert.deepEqual(messages, [
    'The job was admitted.',
    SENTENCES.claimed,
    SENTENCES.running,
    SENTENCES.succeeded,
  ]);
  assert.match(SENTENCES.claimed, /backend was chosen/);
  assert.match(SENTENCES.running, /stream begins/);
  assert.match(WORKER_SENTENCES.ordered, /worker is started/);
  assert.match(WORKER_SENTENCES.evicted, /worker is evicted/);
  for (const end of ['succeeded', 'cancelled', 'dead'] as const) assert.match(SENTENCES[end], /stream ends/);

  const workers = kit.lines.filter((line) => !('job_id' in line));
  const said = new Map(workers.map((line) => [line.event['type'], line]));
  const place = { pool_id: 'p', gpu_id: 0 };
  const expected = {
    ordered: { level: 'info', reason: 'demand' },
    ready: { level: 'info', reason: 'demand' },
    draining: { level: 'info', reason: 'drained for b' },
    evicted: { level: 'info', reason: 'evicted (lru) for a' },
    gone: { level: 'info' },
    start_failed: { level: 'warn', error_code: 'WORKER_START_FAILED' },
  } as const;
  for (const [what, fields] of Object.entries(expected)) {
    const line = said.get(`worker_${what}`);
    const message = WORKER_SENTENCES[what as keyof typeof expected];
    assert.partialDeepStrictEqual(line, { message, ...place, ...fields });
    assert.match(String(line?.['worker_id']), /^w-/);
    assert.match(String(line?.['model_ref']), /^file:\/models\/[ab]\.gguf$/);
  }
  assert.equal(kit.about('worker_id', first)[1]?.['duration_ms'], 12, 'how long the start took');
  for (const text of [...Object.values(SENTENCES), ...Object.values(WORKER_SENTENCES)])
    assert.match(text, /^[A-Z][^{}]*\.$/);
});

test('a worker that was there before this brain is known from the first line on', () => {
  const kit = told();
  kit.ask('one', 'a');
  kit.obey();
  kit.lines.length = 0;
  kit.listen();
  kit.accept('one');
  assert.equal(kit.line('one', 'running')['gpu_id'], 0);
  const found = { ...kit.reportOf('p').workers[0]!, id: 'stranger' };
  kit.pools.get('p')?.workers.set('stranger', found);
  kit.report('p');
  assert.deepEqual(kit.storyOf('stranger'), ['worker_found']);
});

test('of workers only what went wrong is told where lines of that level alone are written', () => {
  const kit = told([10], 'warn');
  kit.broken.add('file:/models/a.gguf');
  kit.ask('one', 'a');
  kit.obey();
  const events = kit.lines.map(({ event }) =>
    event['type'] === 'state_transition' ? event['to'] : event['type'],
  );
  assert.deepEqual(events.toSorted(), ['dead', 'worker_start_failed']);
});

/** A backend whose every job costs 20, under these limits. */
function spending(limits: readonly LimitSpec[]): Told {
  const kit = new Told();
  kit.backend('b', { slots: 9 });
  kit.step({ type: 'prices', prices: [{ model: '*', request: 20 }], by: 'test' });
  kit.step({ type: 'limits', limits, by: 'test' });
  return kit.listen();
}

const spend = (kit: Told, id: string): void => {
  kit.submit(id);
  kit.accept(id);
  kit.end(id, SUCCESS);
};

const warnings = (kit: Told): unknown[] =>
  kit.lines
    .filter(({ message }) => message === MONEY_SENTENCES.share)
    .map(({ scope, event, cost }) => [scope, event['to'], cost]);

test('each share of a budget is warned of once in its window, when it is reached', () => {
  const kit = spending([{ scope: 'global', costBudget: 80, window: 'hour' }]);
  for (const id of ['a', 'b', 'c', 'd', 'e']) spend(kit, id);
  const hour = [
    ['global', 50, 40],
    ['global', 80, 80],
  ];
  // 80 of 80: the highest share counts, the one below was not reached by itself.
  assert.deepEqual(warnings(kit), [hour[0], ['global', 100, 80]]);
  kit.now += 3_600_000;
  for (const id of ['f', 'g']) spend(kit, id);
  assert.deepEqual(warnings(kit).slice(2), [hour[0]], 'the next window begins anew');
});

test('what was warned of before a restart is not warned of again', () => {
  const kit = spending([{ scope: 'global', costBudget: 100 }]);
  for (const id of ['a', 'b', 'c', 'd']) spend(kit, id);
  assert.deepEqual(warnings(kit), [
    ['global', 50, 60],
    ['global', 80, 80],
  ]);
  // Another narrator, as after a restart, hears of the same records.
  kit.lines.length = 0;
  kit.listen();
  spend(kit, 'e');
  assert.deepEqual(warnings(kit), [['global', 100, 100]]);
  kit.lines.length = 0;
  spend(kit, 'f');
  assert.deepEqual(warnings(kit), []);
});
