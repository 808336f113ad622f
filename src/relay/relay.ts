/**
 * Distributes the events of running attempts to any number of followers. Followers are pumped once per turn of the
 * event loop, so that many small events become one write. A slow follower delays no executor, no commit and no other
 * follower (docs/decisions/0007).
 */
import type { ExecutionEvent } from '../core/ports/backend.ts';
import { ExecutionLog, type RelayedEvent } from './execution-log.ts';
import { type Cursor, Follower, type ReadSource, type Sink } from './follower.ts';

export interface RelayOptions {
  /** Runs a function after the events that already wait in the event loop. */
  readonly soon: (run: () => void) => void;
  readonly maxLogBytes: number;
}

interface FollowedJob {
  readonly followers: Set<Follower>;
  /** The events of the newest attempt; those of earlier attempts are dropped. */
  log: ExecutionLog | undefined;
  /** The job has ended: its log is dropped when the last follower leaves. */
  ended: boolean;
  /** Whether the job is paused; undefined until that is known here. */
  isPaused?: boolean;
}

export class Relay {
  readonly #options: RelayOptions;
  readonly #jobs = new Map<string, FollowedJob>();
  /** Jobs with events that their followers have not been pumped for. */
  readonly #dirty = new Set<FollowedJob>();
  #scheduled = false;
  #followers = 0;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  get followers(): number {
    return this.#followers;
  }

  followersOf(uid: string): number {
    return this.#jobs.get(uid)?.followers.size ?? 0;
  }

  /** Takes an executor's event; events of an earlier attempt than the newest are dropped. */
  receive(uid: string, attempt: number, event: ExecutionEvent): void {
    const job = this.#jobOf(uid);
    if (!job.log || job.log.attempt < attempt) {
      job.log = new ExecutionLog(attempt, this.#options.maxLogBytes);
      for (const follower of job.followers) follower.switchTo(attempt);
    }
    if (job.log.attempt > attempt) return;
    job.ended = false;
    job.log.append(event);
    if (job.followers.size > 0) this.#schedulePump(job);
  }

  /** Tells the job's followers something of the brain itself, which has no id. */
  tell(uid: string, event: string, data: unknown): void {
    for (const follower of this.#jobs.get(uid)?.followers ?? []) follower.sendUnnumbered(event, data);
  }

  /** Tells the job's followers that it is paused, or goes on, if that is new. `data` is that of the event. */
  notePause(uid: string, isPaused: boolean, data: () => object): void {
    const job = this.#jobs.get(uid);
    if (!job) return;
    const wasPaused = job.isPaused ?? false;
    job.isPaused = isPaused;
    if (wasPaused !== isPaused) this.tell(uid, isPaused ? 'paused' : 'resumed', data());
  }

  /** Whether the job is paused, for a new follower; `seen` says what was read, which what was noted may have overtaken. */
  isPaused(uid: string, seen: boolean): boolean {
    const job = this.#jobs.get(uid);
    if (!job) return seen;
    job.isPaused ??= seen;
    return job.isPaused;
  }

  /** The job has ended: its followers receive the remaining events of `attempt`, then `event`. */
  end(uid: string, attempt: number, event: RelayedEvent): void {
    const job = this.#jobs.get(uid);
    if (!job) return;
    for (const follower of [...job.followers]) {
      follower.switchTo(attempt);
      follower.finish(event);
    }
  }

  /** The job has ended, and nothing of its attempts may be read any more: its followers receive `event` alone. */
  endWith(uid: string, event: RelayedEvent): void {
    for (const follower of [...(this.#jobs.get(uid)?.followers ?? [])]) follower.endWith(event);
  }

  /** Followers that know the end of the job receive it now; the others wait for it. */
  skipToEnd(uid: string): void {
    for (const follower of [...(this.#jobs.get(uid)?.followers ?? [])]) follower.skipToEnd();
  }

  /** The job has ended: its log is kept only for followers that have not read it to the end. */
  forget(uid: string): void {
    const job = this.#jobs.get(uid);
    if (!job) return;
    job.ended = true;
    this.#dropIfIdle(uid, job);
  }

  follow(uid: string, cursor: Cursor, sink: Sink, source: ReadSource): Follower {
    const job = this.#jobOf(uid);
    const follower = new Follower({
      sink,
      cursor: cursor.attempt > 0 ? cursor : { attempt: 0, n: 0 },
      logOf: (number) => (job.log?.attempt === number ? job.log : undefined),
      source,
      onClose: (closed) => this.#remove(uid, job, closed),
    });
    job.followers.add(follower);
    this.#followers++;
    return follower;
  }

  close(uid: string): void {
    for (const follower of [...(this.#jobs.get(uid)?.followers ?? [])]) follower.close();
  }

  closeAll(): void {
    for (const { followers } of [...this.#jobs.values()])
      for (const follower of [...followers]) follower.close();
  }

  #jobOf(uid: string): FollowedJob {
    let job = this.#jobs.get(uid);
    if (!job) {
      job = { followers: new Set(), log: undefined, ended: false };
      this.#jobs.set(uid, job);
    }
    return job;
  }

  #schedulePump(job: FollowedJob): void {
    this.#dirty.add(job);
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#options.soon(() => {
      this.#scheduled = false;
      const dirty = [...this.#dirty];
      this.#dirty.clear();
      for (const { followers } of dirty) for (const follower of followers) follower.pump();
    });
  }

  #remove(uid: string, job: FollowedJob, follower: Follower): void {
    if (job.followers.delete(follower)) this.#followers--;
    this.#dropIfIdle(uid, job);
  }

  #dropIfIdle(uid: string, job: FollowedJob): void {
    if (job.followers.size === 0 && (job.ended || !job.log)) this.#jobs.delete(uid);
  }
}
