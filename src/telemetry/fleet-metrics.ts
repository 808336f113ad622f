/** Measurements of what runs the jobs: backends, workers, pools and their devices. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { backendOf } from '../core/state/pools.ts';
import type { State } from '../core/state/state.ts';
import { histogram } from './buckets.ts';
import type { Tally, WorkerCounts } from './tally.ts';

export function fleetMetrics(state: State, tally: Tally, registry: Registry): void {
  backendMetrics(state, tally, registry);
  workerMetrics(state, registry);
  workerCounters(tally, registry);
  poolMetrics(state, registry);
}

/** A worker by its own id, as in the log; any other backend by its name. */
function workerId({ fleet }: State, name: string): string {
  const home = fleet.backends.get(name)?.info.home;
  return home ? name.slice(backendOf(home.pool, '').length) : name;
}

function backendMetrics(state: State, tally: Tally, registry: Registry): void {
  const registers = [registry];
  new Counter({
    name: 'orchd_tasks_dispatched_total',
    help: 'What was given to a worker and is over, by how it ended',
    labelNames: ['worker_id', 'outcome'],
    registers,
    collect() {
      this.reset();
      for (const [name, outcomes] of tally.dispatched) {
        const worker_id = workerId(state, name);
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
      for (const [name, { used }] of state.fleet.backends)
        this.set({ worker_id: workerId(state, name) }, used);
    },
  });
  new Gauge({
    name: 'orchd_worker_slots',
    help: 'What a worker can have in hand at once',
    labelNames: ['worker_id'],
    registers,
    collect() {
      this.reset();
      for (const [name, { info }] of state.fleet.backends)
        this.set({ worker_id: workerId(state, name) }, info.slots);
    },
  });
}

function workerMetrics(state: State, registry: Registry): void {
  new Gauge({
    name: 'orchd_workers',
    help: 'Workers of pools, as they should be',
    labelNames: ['pool_id', 'model_ref', 'status'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { pool, modelRef, state: status } of state.workers.values())
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

function poolMetrics(state: State, registry: Registry): void {
  const registers = [registry];
  new Gauge({
    name: 'orchd_pool_up',
    help: 'Whether a pool has answered of late',
    labelNames: ['pool_id'],
    registers,
    collect() {
      this.reset();
      for (const [pool_id, { up }] of state.pools.known) this.set({ pool_id }, up ? 1 : 0);
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
        for (const [pool_id, { devices }] of state.pools.known)
          for (const device of devices.values()) this.set({ pool_id, gpu_id: device.id }, device[of]);
      },
    });
  };
  memory('orchd_pool_vram_bytes', 'Memory of a device, as its pool says', 'totalBytes');
  memory('orchd_pool_vram_available_bytes', 'What of it is free, as its pool last said', 'availableBytes');
}
