/** Tells the end of a job, once it is durable, to those who follow it and to those who wait for it. */
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import type { Following } from './following.ts';
import type { Reads } from './reads.ts';
import type { JobView } from './view.ts';
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
      const view = reads.entryNow(entry);
      return this.#tell(uid, result === undefined ? view : { ...view, result: JSON.parse(result) });
    }
    reads.entry(entry).then(
      (job) => this.#tell(uid, job),
      (error: Error) => {
        logger?.error('an end could not be told', { job_id: uid, reason: describeThrown(error) });
        this.#waiters.reject(uid, error);
        following.close(uid);
      },
    );
  }

  #tell(uid: string, job: JobView): void {
    this.#parts.following.ended(uid, job);
    this.#waiters.tell(uid, job);
  }
}
