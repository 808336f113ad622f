/** Tells the end of a job, once it is durable, to those who follow it and to those who wait for it. */
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { Following } from './following.ts';
import { type JobWithResult, jobValue } from './job-text.ts';
import type { Reads } from './reads.ts';
import { Waiters } from './waiters.ts';

export interface EndNoticesParts {
  readonly reads: Reads;
  readonly following: Following;
  readonly logger: Logger | undefined;
}

export class EndNotices {
  readonly #parts: EndNoticesParts;
  readonly #waiters = new Waiters();

  constructor(parts: EndNoticesParts) {
    this.#parts = parts;
  }

  /** Resolves with the job when it has ended. */
  wait(uid: string): Promise<JobView> {
    return this.#waiters.wait(uid);
  }

  /** Nobody will be told anything any more. */
  fail(error: Error): void {
    this.#waiters.rejectAll(error);
  }

  tell(entry: JobEntry): void {
    const { reads, following, logger } = this.#parts;
    const { uid } = entry;
    if (following.followersOf(uid) === 0 && !this.#waiters.has(uid)) return following.forget(uid);
    const { result } = entry.job;
    // At once where the result is at hand: those who wait then share the flush of what they do next.
    if (result === undefined || typeof result === 'string') {
      return this.#tell(uid, { job: reads.entryNow(entry), resultText: result });
    }
    reads.entry(entry).then(
      (seen) => this.#tell(uid, seen),
      (error: Error) => {
        logger?.error('an end could not be told', { job_id: uid, reason: describeThrown(error) });
        this.#waiters.reject(uid, error);
        following.close(uid);
      },
    );
  }

  #tell(uid: string, seen: JobWithResult): void {
    this.#parts.following.ended(uid, seen);
    if (this.#waiters.has(uid)) this.#waiters.tell(uid, jobValue(seen));
  }
}
