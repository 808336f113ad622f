/** The Prometheus metrics of a brain; docs/operations/metrics.md describes each. Nothing here influences a decision. */
import { Counter, Gauge, Registry } from 'prom-client';
import { processUsage } from '../kit/process/usage.ts';
import { isTerminal, JOB_STATES } from '../model/states.ts';
import type { Figures } from '../runtime/figures.ts';
import type { Reads } from '../runtime/reads.ts';
import { histogram } from './buckets.ts';
import { conversationMetrics } from './conversation-metrics.ts';
import { endMetrics } from './end-metrics.ts';
import { fleetMetrics } from './fleet-metrics.ts';
import { governanceMetrics } from './governance-metrics.ts';
import { httpMetrics } from './http-metrics.ts';
import { moduleMetrics } from './module-metrics.ts';
import { moneyMetrics } from './money-metrics.ts';
import { loopDelayMetric, processMetrics } from './process-metrics.ts';
import { runMetrics } from './run-metrics.ts';
import { scalingMetrics } from './scaling-metrics.ts';
import { storageMetrics } from './storage-metrics.ts';
import type { Tally } from './tally.ts';

const LIVE_STATES = JOB_STATES.filter((state) => !isTerminal(state));

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
  #usage = processUsage();

  constructor({ reads, following }: Measured, tally: Tally) {
    this.#reads = reads;
    const figures = (): Figures => this.#figures as Figures;
    submitCounters(tally, this.#registry);
    queueMetrics(figures, tally, this.#registry);
    jobMetrics(figures, following, this.#registry);
    endMetrics(tally, this.#registry);
    moneyMetrics(figures, tally, this.#registry);
    conversationMetrics(figures, tally.conversations, this.#registry);
    governanceMetrics(figures, this.#registry);
    runMetrics(tally.runs, this.#registry);
    moduleMetrics(tally.modules, this.#registry);
    predictionMetrics(tally, this.#registry);
    fleetMetrics(figures, tally, this.#registry);
    scalingMetrics(figures, tally.latency, this.#registry);
    httpMetrics(tally.http, this.#registry);
    storageMetrics(tally.storage, this.#registry);
    processMetrics(() => this.#usage, this.#registry);
    loopDelayMetric(tally.loopDelay, this.#registry);
  }

  render(): Promise<string> {
    this.#figures = this.#reads.figures();
    this.#usage = processUsage();
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
    help: 'Jobs that are ready to run',
    registers,
    collect() {
      this.set(sum(Object.values(figures().ready)));
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
    help: 'Jobs that have not ended, by state',
    labelNames: ['state'],
    registers,
    collect() {
      // Ended jobs leave memory at any time: their number there says nothing.
      for (const state of LIVE_STATES) this.set({ state }, figures().jobs[state]);
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
