/** Reports the end of a job, once it is durable, to its followers and to the callers of `wait`. */
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { Following } from './following.ts';
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
    const isSealed = entry.ask.spec.session_id !== undefined;
    // Reported synchronously if the result can be read at once: what the waiting callers submit next then shares a flush.
    if (!isSealed && (result === undefined || typeof result === 'string')) {
      const job = reads.entryNow(entry);
      following.ended(uid, { job, result });
      if (!this.#waiters.has(uid)) return;
      return this.#waiters.resolve(uid, result === undefined ? job : { ...job, result: JSON.parse(result) });
    }
    const failed = (error: Error): void =>
      logger?.error('the end of a job could not be read', { job_id: uid, reason: describeThrown(error) });
    if (this.#waiters.has(uid)) {
      reads.entryWithValue(entry).then(
        (job) => this.#waiters.resolve(uid, job),
        (error: Error) => {
          failed(error);
          this.#waiters.reject(uid, error);
        },
      );
    }
    if (following.followersOf(uid) === 0) return following.forget(uid);
    reads.entryWithResult(entry).then(
      (seen) => following.ended(uid, seen),
      (error: Error) => {
        failed(error);
        following.close(uid);
      },
    );
  }
}
