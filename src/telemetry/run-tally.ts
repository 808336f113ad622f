/** Counts of the runs of agents and of their steps, in plain numbers. */
import { Buckets } from './buckets.ts';

/** How a run has ended. */
export type RunEnd = 'completed' | 'failed' | 'cancelled';

export interface CountedStep {
  readonly event: string;
  /** Empty for a step that asks no model. */
  readonly role: string;
  readonly outcome: string;
}

export class RunTally {
  /** All states from the start, so that the first end is an increase. */
  readonly ended: Record<RunEnd, number> = { completed: 0, failed: 0, cancelled: 0 };
  /** Steps that threw. */
  defects = 0;
  /** Steps by what they are and how they ended: each of the three is one of a few words. */
  readonly steps = new Map<string, { readonly step: CountedStep; count: number }>();
  readonly durationsMs = new Map<string, Buckets>();

  step(step: CountedStep, durationMs: number): void {
    const key = `${step.event} ${step.role} ${step.outcome}`;
    const known = this.steps.get(key);
    if (known) known.count++;
    else this.steps.set(key, { step, count: 1 });
    let buckets = this.durationsMs.get(step.event);
    if (!buckets) {
      buckets = new Buckets();
      this.durationsMs.set(step.event, buckets);
    }
    buckets.note(durationMs);
  }
}
