/** Measurements of what runs the jobs: backends, workers, pools and their devices. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Figures } from '../runtime/figures.ts';
import { histogram } from './buckets.ts';
import type { Tally, WorkerCounts } from './tally.ts';

/** `figures` returns the figures of the scrape that is being answered. */
export function fleetMetrics(figures: () => Figures, tally: Tally, registry: Registry): void {
  backendMetrics(figures, tally, registry);
  workerMetrics(figures, registry);
  workerCounters(tally, registry);
  poolMetrics(figures, registry);
}

function backendMetrics(figures: () => Figures, tally: Tally, registry: Registry): void {
  const registers = [registry];
  new Counter({
    name: 'orchd_tasks_dispatched_total',
    help: 'What was given to a worker and is over, by how it ended',
    labelNames: ['worker_id', 'outcome'],
    registers,
    collect() {
      this.reset();
      const ids = new Map(figures().backends.map(({ name, workerId }) => [name, workerId]));
      for (const [name, outcomes] of tally.dispatched) {
        const worker_id = ids.get(name) ?? name;
        for (const [outcome, count] of Object.entries(outcomes)) this.inc({ worker_id, outcome }, count);
      }
    },
  });
  new Gauge({
    name: 'orchd_worker_connections_active',
    help: 'What a worker has in hand, a slot and a stream for each',
    labelNames: ['worker_id'],
    registers,
    collect() {
      this.reset();
      for (const { workerId, used } of figures().backends) this.set({ worker_id: workerId }, used);
    },
  });
  new Gauge({
    name: 'orchd_worker_slots',
    help: 'What a worker can have in hand at once',
    labelNames: ['worker_id'],
    registers,
    collect() {
      this.reset();
      for (const { workerId, slots } of figures().backends) this.set({ worker_id: workerId }, slots);
    },
  });
}

function workerMetrics(figures: () => Figures, registry: Registry): void {
  new Gauge({
    name: 'orchd_workers',
    help: 'Workers of pools, as they should be',
    labelNames: ['pool_id', 'model_ref', 'status'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { pool, modelRef, state: status } of figures().workers)
        this.inc({ pool_id: pool, model_ref: modelRef, status });
    },
  });
}

function workerCounters(tally: Tally, registry: Registry): void {
  const counter = (name: string, help: string, of: 'starts' | 'evictions' | 'failures'): void => {
    new Counter({
      name,
      help,
      labelNames: ['model_ref', 'reason'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [model_ref, counts] of tally.workers)
          for (const [reason, count] of counts[of]) this.inc({ model_ref, reason }, count);
      },
    });
  };
  counter('orchd_worker_starts_total', 'Workers that were ordered', 'starts');
  counter('orchd_worker_evictions_total', 'Workers that were let go, at once or after a drain', 'evictions');
  counter('orchd_worker_failures_total', 'Workers that failed to start, failed later, or died', 'failures');
  histogram({
    name: 'orchd_cold_start_ms',
    help: 'From the order of a worker that jobs waited for until it was ready',
    registry,
    series: () => [...tally.workers].filter(hasColdStarts).map(coldStarts),
  });
}

const hasColdStarts = ([, { coldStartMs }]: [string, WorkerCounts]): boolean => coldStartMs.count > 0;

const coldStarts = ([model_ref, { coldStartMs }]: [string, WorkerCounts]) =>
  [{ model_ref }, coldStartMs] as const;

function poolMetrics(figures: () => Figures, registry: Registry): void {
  const registers = [registry];
  new Gauge({
    name: 'orchd_pool_up',
    help: 'Whether a pool has answered of late',
    labelNames: ['pool_id'],
    registers,
    collect() {
      this.reset();
      for (const { id, up } of figures().pools) this.set({ pool_id: id }, up ? 1 : 0);
    },
  });
  const memory = (name: string, help: string, of: 'totalBytes' | 'availableBytes'): void => {
    new Gauge({
      name,
      help,
      labelNames: ['pool_id', 'gpu_id'],
      registers,
      collect() {
        this.reset();
        for (const { id, devices } of figures().pools)
          for (const device of devices) this.set({ pool_id: id, gpu_id: device.id }, device[of]);
      },
    });
  };
  memory('orchd_pool_vram_bytes', 'Memory of a device, as its pool says', 'totalBytes');
  memory('orchd_pool_vram_available_bytes', 'What of it is free, as its pool last said', 'availableBytes');
}
