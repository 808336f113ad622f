/**
 * Connects jobs with the relay: a follower of a job receives the events of its executor, and its end once that is
 * durable.
 */

import type { ExecutionEvent } from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Env } from '../kit/env/env.ts';
import type { HeldBytes } from '../kit/held-bytes.ts';
import type { JobView } from '../model/http/jobs.ts';
import { tokenOf } from '../model/records.ts';
import { isOpen, isTerminal } from '../model/states.ts';
import type { Commander } from '../model/worker-wire.ts';
import type { RelayedEvent } from '../relay/execution-log.ts';
import type { Cursor, Follower, ReadSource, Sink } from '../relay/follower.ts';
import { Relay } from '../relay/relay.ts';
import type { BackendDirectory } from './backend-directory.ts';
import { beforeMember, type JobWithResult, withMember } from './job-text.ts';

/** Size of the log that is kept of each running attempt, for followers that join late or fall behind. */
const MAX_LOG_BYTES = 256 * 1024;

export const FROM_THE_START: Cursor = { attempt: 0, n: 0 };

/** The id of a job's last event. A reader that resumes with it has received everything. */
export const endId = (attempt: number): string => `${attempt}.end`;

/** The reader has received the end of the job, whose last attempt then was number `ended`. */
interface ReadToEnd {
  readonly ended: number;
}

/**
 * Where a reader resumes: after an event, or after the end, which leaves nothing to read unless the job was redriven.
 */
export type ReaderPosition = Cursor | ReadToEnd;

/** The position after the event with this id; undefined if it is not an event id. */
export function cursorOf(id: string): ReaderPosition | undefined {
  const end = /^(\d{1,9})\.end$/.exec(id);
  if (end) return { ended: Number(end[1]) };
  const match = /^(\d{1,9})\.(\d{1,15})$/.exec(id);
  return match ? { attempt: Number(match[1]), n: Number(match[2]) } : undefined;
}

export interface FollowingParts {
  readonly env: Env;
  readonly backends: BackendDirectory;
  readonly who: () => Commander;
}

export class Following {
  readonly #parts: FollowingParts;
  readonly #relay: Relay;
  #closed = false;

  constructor(parts: FollowingParts) {
    this.#parts = parts;
    this.#relay = new Relay({ soon: (run) => parts.env.timers.soon(run), maxLogBytes: MAX_LOG_BYTES });
  }

  /**
   * Whether the brain has closed all streams because it stops. A client cut off by that has not disconnected itself.
   */
  get closed(): boolean {
    return this.#closed;
  }

  get followers(): number {
    return this.#relay.followers;
  }

  followersOf(uid: string): number {
    return this.#relay.followersOf(uid);
  }

  receive(entry: JobEntry, event: ExecutionEvent): void {
    if (entry.open) this.#relay.receive(entry.uid, entry.open.n, event);
  }

  /**
   * Adds a follower. Resolves to undefined if the reader has received the end already. `view` is read after the
   * follower was added, so that no end is missed between the two. With `refuses` it throws where a large result cannot
   * be read now; without, the sink waits for it.
   */
  async follow(
    uid: string,
    position: ReaderPosition,
    sink: Sink,
    view: () => Promise<JobWithResult>,
    refuses: boolean,
  ): Promise<Follower | undefined> {
    let job: JobView | undefined;
    const source: ReadSource = (attempt, from, on, signal) => this.#read(uid, job, attempt, from, on, signal);
    const cursor = 'ended' in position ? FROM_THE_START : position;
    const follower = this.#relay.follow(uid, cursor, sink, source);
    let held: HeldBytes | undefined;
    try {
      const seen = await view();
      job = seen.job;
      if (isReadToEnd(position, job)) {
        follower.close();
        return undefined;
      }
      // Opened before the stream begins: a result that cannot be read is an error, and not a stream without an end.
      if (refuses && typeof seen.result === 'object') held = await seen.result.open('now');
      this.#begin(uid, follower, seen);
      return follower;
    } catch (error) {
      follower.close();
      throw error;
    } finally {
      held?.release();
    }
  }

  /**
   * A change of the job is durable. Its followers learn what it waits for, that nobody knows what became of it, and that
   * it is paused or goes on.
   */
  settled({ uid, ask, open, job: { state, wait, paused } }: JobEntry): void {
    // Between two attempts, the log of the last one is not needed if nobody follows the job.
    if (!open && this.#relay.followersOf(uid) === 0) return this.#relay.forget(uid);
    if (state === 'waiting' && wait)
      this.#relay.tell(uid, 'waiting', { job_id: ask.id, step: wait.step, jobs: wait.children });
    else if (state === 'stale') this.#relay.tell(uid, 'stale', { job_id: ask.id });
    if (!isTerminal(state))
      this.#relay.notePause(uid, paused !== undefined, () => ({ job_id: ask.id, ...paused }));
  }

  ended(uid: string, seen: JobWithResult): void {
    if (seen.isErased) this.#relay.endWith(uid, endEvent(seen));
    else this.#relay.end(uid, lastAttempt(seen.job), endEvent(seen));
    this.#relay.forget(uid);
  }

  /** The session of a job was deleted: whoever still reads what an ended job has said gets its end instead. */
  erased(uid: string): void {
    this.#relay.skipToEnd(uid);
  }

  /** Drops the logs of a job without followers. */
  forget(uid: string): void {
    this.#relay.forget(uid);
  }

  /** Closes the streams of a job whose end cannot be read now; its followers may reconnect. */
  close(uid: string): void {
    this.#relay.close(uid);
  }

  closeAll(): void {
    this.#closed = true;
    this.#relay.closeAll();
  }

  #begin(uid: string, follower: Follower, seen: JobWithResult): void {
    const { job } = seen;
    // What its attempts have said may still be at its executors.
    if (seen.isErased) return follower.endWith(endEvent(seen));
    const attempt = lastAttempt(job);
    if (this.#relay.isPaused(uid, job.paused !== undefined) && !isTerminal(job.state))
      follower.sendUnnumbered('paused', { job_id: job.job_id, ...job.paused });
    if (attempt > 0) follower.switchTo(attempt);
    if (isTerminal(job.state)) follower.finish(endEvent(seen), stillRuns(job));
    else if (job.state === 'queued') follower.sendUnnumbered('queued', waitingOf(job));
    else if (job.wait && job.state === 'waiting')
      follower.sendUnnumbered('waiting', { job_id: job.job_id, step: job.wait.step, jobs: job.wait.jobs });
    else if (job.state === 'stale') follower.sendUnnumbered('stale', { job_id: job.job_id });
    follower.pump();
    if (this.#closed) follower.close();
  }

  async #read(
    uid: string,
    job: JobView | undefined,
    attempt: number,
    from: number,
    on: (event: ExecutionEvent) => void,
    signal: AbortSignal,
  ) {
    const name = job?.attempts.find((known) => known.attempt === attempt)?.backend;
    const backend = name === undefined ? undefined : this.#parts.backends.get(name);
    if (!backend) return { is: 'lost' } as const;
    return backend.follow(tokenOf(uid, attempt), from, on, this.#parts.who(), signal);
  }
}

const lastAttempt = (job: JobView): number => job.attempts.at(-1)?.attempt ?? 0;

/** After a redrive the job has later attempts: its former end is not its last event. */
const isReadToEnd = (position: ReaderPosition, job: JobView): boolean =>
  'ended' in position && isTerminal(job.state) && position.ended >= lastAttempt(job);

/** The job has ended for its callers, but its last attempt was not confirmed to have ended. */
const stillRuns = (job: JobView): boolean => {
  const last = job.attempts.at(-1);
  return last !== undefined && isOpen(last.state);
};

const waitingOf = (job: JobView): object => ({
  job_id: job.job_id,
  queue_position: job.queue_position,
  predicted_start_ms: job.predicted_start_ms,
  waiting: job.waiting,
});

function endEvent({ job, result }: JobWithResult): RelayedEvent {
  const { job_id, state, error, reason, cost } = job;
  const id = endId(lastAttempt(job));
  if (state === 'succeeded') {
    const text = JSON.stringify({ job_id, state, cost });
    if (typeof result !== 'object') return { id, event: 'end', data: withMember(text, 'result', result) };
    return {
      id,
      event: 'end',
      data: beforeMember(text, 'result'),
      large: { value: result, after: '}' },
      value: { job_id, state, cost },
    };
  }
  const value = { job_id, state, reason, cost, ...error };
  return { id, event: 'error', data: JSON.stringify(value), value };
}
