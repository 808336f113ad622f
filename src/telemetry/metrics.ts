/** What is measured, in the words of the vocabulary. A subscriber: nothing here decides anything. */
import { Counter, Gauge, Registry } from 'prom-client';
import { OrchdError } from '../model/errors.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { SubmitOutcome } from '../runtime/submissions.ts';

/** Counted as plain numbers, since labels cost more than a submit: they are put on when somebody asks. */
class Submits {
  accepted = 0;
  duplicate = 0;
  readonly rejected = new Map<string, number>();
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #submits = new Submits();

  constructor(orchestrator: Orchestrator) {
    const registers = [this.#registry];
    submitCounters(this.#submits, registers);
    gauges(orchestrator, registers);
  }

  submitted(outcome: SubmitOutcome): void {
    const submits = this.#submits;
    if (outcome instanceof OrchdError) {
      submits.rejected.set(outcome.code, (submits.rejected.get(outcome.code) ?? 0) + 1);
    } else if (outcome.duplicate_of) submits.duplicate++;
    else submits.accepted++;
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }
}

function submitCounters(submits: Submits, registers: Registry[]): void {
  new Counter({
    name: 'tasks_enqueued_total',
    help: 'Jobs admitted',
    registers,
    collect() {
      this.reset();
      this.inc(submits.accepted);
    },
  });
  new Counter({
    name: 'tasks_rejected_total',
    help: 'Submits refused',
    labelNames: ['code'],
    registers,
    collect() {
      this.reset();
      for (const [code, count] of submits.rejected) this.inc({ code }, count);
    },
  });
  new Counter({
    name: 'orchd_tasks_enqueued_total',
    help: 'Submits by outcome',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset();
      this.inc({ outcome: 'accepted' }, submits.accepted);
      this.inc({ outcome: 'duplicate' }, submits.duplicate);
      this.inc({ outcome: 'rejected' }, sum(submits.rejected.values()));
    },
  });
}

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, count) => total + count, 0);

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
