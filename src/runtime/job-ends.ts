/**
 * Notifies other parts of this process that a job has ended: adapters that deliver results, agents whose steps are
 * jobs. Each end is reported once, after it is durable. Ends before the subscription are not reported: a subscriber
 * that must not miss one reads the job after subscribing.
 */
import type { Cancel } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import type { Change, DeadReason } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';

export interface JobEnd {
  /** The job id qualified by its tenant. */
  readonly uid: string;
  readonly state: Extract<JobState, 'succeeded' | 'cancelled' | 'dead'>;
  /** Why the job is dead. */
  readonly reason: DeadReason | undefined;
  readonly endedAt: number;
}

type JobEndListener = (end: JobEnd) => void;

export class JobEnds {
  readonly #listeners = new Set<JobEndListener>();
  readonly #logger: Logger | undefined;

  /** What a listener throws is logged: listeners run within a commit, which must not fail because of them. */
  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  /** The listener must be fast: it is called within each commit. */
  subscribe(listener: JobEndListener): Cancel {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Called with durable changes. A job record in a terminal state is written once per end, so no end is reported
   * twice.
   */
  changed(changes: readonly Change[]): void {
    if (this.#listeners.size === 0) return;
    for (const { kind, id, after } of changes) {
      if (kind !== 'job' || !after || !isTerminal(after.state)) continue;
      const state = after.state as JobEnd['state'];
      const end = { uid: id, state, reason: after.reason, endedAt: after.endedAt ?? 0 };
      for (const listener of this.#listeners) this.#notify(listener, end);
    }
  }

  #notify(listener: JobEndListener, end: JobEnd): void {
    try {
      listener(end);
    } catch (error) {
      this.#logger?.error('a job-end listener failed', { reason: describeThrown(error) });
    }
  }
}
