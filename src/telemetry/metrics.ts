/** What is measured, in the words of the vocabulary. A subscriber: nothing here decides anything. */
import { Counter, Gauge, Registry } from 'prom-client';
import { OrchdError } from '../model/errors.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { SubmitOutcome } from '../runtime/submissions.ts';

export class Metrics {
  readonly #registry = new Registry();
  readonly #enqueued: Counter;
  readonly #rejected: Counter<'code'>;
  readonly #outcomes: Counter<'outcome'>;

  constructor(orchestrator: Orchestrator) {
    const registers = [this.#registry];
    this.#enqueued = new Counter({ name: 'tasks_enqueued_total', help: 'Jobs admitted', registers });
    this.#rejected = new Counter({
      name: 'tasks_rejected_total',
      help: 'Submits refused',
      labelNames: ['code'],
      registers,
    });
    this.#outcomes = new Counter({
      name: 'orchd_tasks_enqueued_total',
      help: 'Submits by outcome',
      labelNames: ['outcome'],
      registers,
    });
    gauges(orchestrator, registers);
  }

  submitted(outcome: SubmitOutcome): void {
    if (outcome instanceof OrchdError) {
      this.#rejected.inc({ code: outcome.code });
      this.#outcomes.inc({ outcome: 'rejected' });
    } else if (outcome.duplicate_of) this.#outcomes.inc({ outcome: 'duplicate' });
    else {
      this.#enqueued.inc();
      this.#outcomes.inc({ outcome: 'accepted' });
    }
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }
}

/** Read from the state when they are asked for. */
function gauges(orchestrator: Orchestrator, registers: Registry[]): void {
  const { state } = orchestrator.engine;
  new Gauge({
    name: 'queue_depth',
    help: 'Jobs that wait, parked ones included',
    registers,
    collect() {
      this.set(state.counts.queued);
    },
  });
  new Gauge({
    name: 'orchd_queue_depth',
    help: 'Jobs that are ready to run, by priority',
    labelNames: ['priority'],
    registers,
    collect() {
      for (const [priority, { jobs }] of Object.entries(state.waiting)) this.set({ priority }, jobs);
    },
  });
  new Gauge({
    name: 'orchd_jobs',
    help: 'Jobs in memory, by state',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [name, count] of Object.entries(state.counts)) this.set({ state: name }, count);
    },
  });
  new Gauge({
    name: 'orchd_backend_slots_used',
    help: 'Slots in use, by backend',
    labelNames: ['backend'],
    registers,
    collect() {
      this.reset();
      for (const [backend, { used }] of state.fleet.backends) this.set({ backend }, used);
    },
  });
  new Gauge({
    name: 'orchd_followers',
    help: 'Streams that are followed now',
    registers,
    collect() {
      this.set(orchestrator.following.followers);
    },
  });
  new Counter({
    name: 'tasks_dropped_total',
    help: 'Admitted jobs that were dropped to make room',
    registers,
    collect() {
      this.reset();
      this.inc(state.dropped);
    },
  });
}
