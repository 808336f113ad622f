/** Reports the end of a job, once it is durable, to its followers and to the callers of `wait`. */
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

  /** Resolves to the job when it has ended. */
  wait(uid: string): Promise<JobView> {
    return this.#waiters.wait(uid);
  }

  /** Rejects all waiting callers: the brain has stopped. */
  fail(error: Error): void {
    this.#waiters.rejectAll(error);
  }

  notify(entry: JobEntry): void {
    const { reads, following, logger } = this.#parts;
    const { uid } = entry;
    if (following.followersOf(uid) === 0 && !this.#waiters.has(uid)) return following.forget(uid);
    const { result } = entry.job;
    // Reported synchronously if the result is inline: what the waiting callers submit next then shares a flush.
    if (result === undefined || typeof result === 'string') {
      return this.#notify(uid, { job: reads.entryNow(entry), resultText: result });
    }
    reads.entry(entry).then(
      (seen) => this.#notify(uid, seen),
      (error: Error) => {
        logger?.error('the end of a job could not be read', { job_id: uid, reason: describeThrown(error) });
        this.#waiters.reject(uid, error);
        following.close(uid);
      },
    );
  }

  #notify(uid: string, seen: JobWithResult): void {
    this.#parts.following.ended(uid, seen);
    if (this.#waiters.has(uid)) this.#waiters.resolve(uid, jobValue(seen));
  }
}
