/**
 * Says that a job has ended, to others in this process: adapters that hand results on, agents whose steps are jobs.
 * Each end is told once, after it is durable. What was told before somebody listened is not told again: who must not
 * miss an end asks for the job after subscribing.
 */
import type { Cancel } from '../kit/env/env.ts';
import type { Change, DeadReason } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';

export interface JobEnd {
  /** The job inside the system: its id, qualified by its tenant. */
  readonly uid: string;
  readonly state: Extract<JobState, 'succeeded' | 'cancelled' | 'dead'>;
  /** Why it is dead. */
  readonly reason: DeadReason | undefined;
  readonly endedAt: number;
}

type Listener = (end: JobEnd) => void;

export class JobEnds {
  readonly #listeners = new Set<Listener>();
  readonly #onError: (error: unknown) => void;

  /** `onError` hears what a listener has thrown: it is on the way of a commit, which must not fail for it. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** The listener must be quick: it is called on the way of every commit. */
  subscribe(listener: Listener): Cancel {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** These changes are durable. A job that has ended is written again only to be redriven. */
  changed(changes: readonly Change[]): void {
    if (this.#listeners.size === 0) return;
    for (const { kind, id, after } of changes) {
      if (kind !== 'job' || !after || !isTerminal(after.state)) continue;
      const state = after.state as JobEnd['state'];
      const end = { uid: id, state, reason: after.reason, endedAt: after.endedAt ?? 0 };
      for (const listener of this.#listeners) this.#tell(listener, end);
    }
  }

  #tell(listener: Listener, end: JobEnd): void {
    try {
      listener(end);
    } catch (error) {
      this.#onError(error);
    }
  }
}
