/** The Prometheus metrics of a brain; docs/operations/metrics.md describes each. Nothing here influences a decision. */
import { Counter, Gauge, Registry } from 'prom-client';
import type { Figures } from '../runtime/figures.ts';
import type { Reads } from '../runtime/reads.ts';
import { histogram } from './buckets.ts';
import { fleetMetrics } from './fleet-metrics.ts';
import type { Tally } from './tally.ts';

/** The part of an orchestrator that a scrape reads. */
export interface Measured {
  readonly reads: Pick<Reads, 'figures'>;
  readonly following: { readonly followers: number };
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #reads: Measured['reads'];
  /** The figures of the scrape that began last. */
  #figures: Figures | undefined;

  constructor({ reads, following }: Measured, tally: Tally) {
    this.#reads = reads;
    const figures = (): Figures => this.#figures as Figures;
    submitCounters(tally, this.#registry);
    queueMetrics(figures, tally, this.#registry);
    jobMetrics(figures, following, this.#registry);
    predictionMetrics(tally, this.#registry);
    fleetMetrics(figures, tally, this.#registry);
  }

  render(): Promise<string> {
    this.#figures = this.#reads.figures();
    return this.#registry.metrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }
}

function submitCounters(tally: Tally, registry: Registry): void {
  const registers = [registry];
  new Counter({
    name: 'tasks_enqueued_total',
    help: 'Jobs admitted',
    registers,
    collect() {
      this.reset();
      this.inc(tally.accepted);
    },
  });
  new Counter({
    name: 'tasks_rejected_total',
    help: 'Submits refused',
    labelNames: ['code'],
    registers,
    collect() {
      this.reset();
      for (const [code, count] of tally.rejected) this.inc({ code }, count);
    },
  });
  new Counter({
    name: 'orchd_tasks_enqueued_total',
    help: 'Submits by outcome',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset();
      this.inc({ outcome: 'accepted' }, tally.accepted);
      this.inc({ outcome: 'duplicate' }, tally.duplicate);
      this.inc({ outcome: 'rejected' }, sum(tally.rejected.values()));
    },
  });
}

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, count) => total + count, 0);

function queueMetrics(figures: () => Figures, tally: Tally, registry: Registry): void {
  const registers = [registry];
  new Gauge({
    name: 'queue_depth',
    help: 'Jobs that wait, parked ones included',
    registers,
    collect() {
      this.set(figures().jobs.queued);
    },
  });
  new Gauge({
    name: 'orchd_queue_depth',
    help: 'Jobs that are ready to run, by priority',
    labelNames: ['priority'],
    registers,
    collect() {
      for (const [priority, jobs] of Object.entries(figures().ready)) this.set({ priority }, jobs);
    },
  });
  new Counter({
    name: 'tasks_dropped_total',
    help: 'Admitted jobs that were dropped to make room',
    registers,
    collect() {
      this.reset();
      this.inc(figures().dropped);
    },
  });
  histogram({
    name: 'orchd_scheduling_latency_ms',
    help: 'From when a job could run until a backend was chosen, by placement algorithm',
    registry,
    series: () => [[{ algorithm: tally.algorithm }, tally.scheduling]],
  });
}

function jobMetrics(figures: () => Figures, following: Measured['following'], registry: Registry): void {
  const registers = [registry];
  new Gauge({
    name: 'orchd_jobs',
    help: 'Jobs in memory, by state',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [name, count] of Object.entries(figures().jobs)) this.set({ state: name }, count);
    },
  });
  new Gauge({
    name: 'orchd_followers',
    help: 'Streams that are followed now',
    registers,
    collect() {
      this.set(following.followers);
    },
  });
}

function predictionMetrics({ predictionError }: Tally, registry: Registry): void {
  new Gauge({
    name: 'orchd_predicted_start_error_ratio',
    help: 'How far predicted_start_ms was off, relative to the real wait, over the last 512 jobs that waited',
    labelNames: ['quantile'],
    registers: [registry],
    collect() {
      for (const quantile of [0.5, 0.9]) {
        const error = predictionError.quantile(quantile);
        if (error !== undefined) this.set({ quantile }, error);
      }
    },
  });
}
