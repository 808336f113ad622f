/**
 * Hands what happens to a job to those who follow it in this process. A follower that does not keep up loses
 * the oldest events and is told how many; it never slows an executor, a commit or another follower.
 */
import type { ExecutionEvent } from '../core/ports.ts';
import type { JobView } from './view.ts';

export type JobEvent =
  | { readonly type: 'queued'; readonly job: JobView }
  | { readonly type: 'started' | 'token' | 'metrics'; readonly id: string; readonly data: unknown }
  /** A new attempt discards what the earlier one said. */
  | { readonly type: 'reset'; readonly attempt: number }
  | { readonly type: 'gap'; readonly missed: number }
  | { readonly type: 'end' | 'error'; readonly job: JobView };

const MAX_BUFFERED = 10_000;

export class Follower implements AsyncIterableIterator<JobEvent> {
  #buffer: JobEvent[] = [];
  #missed = 0;
  #attempt = 0;
  #done = false;
  #wake: (() => void) | undefined;
  readonly #onClose: (follower: Follower) => void;

  constructor(onClose: (follower: Follower) => void) {
    this.#onClose = onClose;
  }

  push(event: JobEvent): void {
    if (this.#done) return;
    this.#buffer.push(event);
    if (this.#buffer.length > MAX_BUFFERED) {
      this.#buffer.shift();
      this.#missed++;
    }
    if (event.type === 'end' || event.type === 'error') this.#finish();
    this.#wake?.();
  }

  execution(attempt: number, event: ExecutionEvent): void {
    if (event.type === 'end' || event.type === 'error') return;
    if (this.#attempt !== 0 && attempt !== this.#attempt) this.push({ type: 'reset', attempt });
    this.#attempt = attempt;
    this.push({ type: event.type, id: `${attempt}.${event.n}`, data: event.data });
  }

  close(): void {
    this.#finish();
    this.#wake?.();
  }

  #finish(): void {
    this.#done = true;
    this.#onClose(this);
  }

  async next(): Promise<IteratorResult<JobEvent>> {
    while (this.#buffer.length === 0 && !this.#done) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#missed > 0) {
      const missed = this.#missed;
      this.#missed = 0;
      return { value: { type: 'gap', missed }, done: false };
    }
    const value = this.#buffer.shift();
    return value ? { value, done: false } : { value: undefined, done: true };
  }

  async return(): Promise<IteratorResult<JobEvent>> {
    this.close();
    this.#buffer = [];
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

export class Followers {
  readonly #byJob = new Map<string, Set<Follower>>();

  follow(uid: string): Follower {
    const follower = new Follower((closed) => this.#remove(uid, closed));
    const others = this.#byJob.get(uid);
    if (others) others.add(follower);
    else this.#byJob.set(uid, new Set([follower]));
    return follower;
  }

  of(uid: string): Iterable<Follower> | undefined {
    return this.#byJob.get(uid);
  }

  closeAll(): void {
    for (const followers of [...this.#byJob.values()])
      for (const follower of [...followers]) follower.close();
  }

  #remove(uid: string, follower: Follower): void {
    const others = this.#byJob.get(uid);
    others?.delete(follower);
    if (others?.size === 0) this.#byJob.delete(uid);
  }
}

/** Callers that wait for the end of a job. */
export class Waiters {
  readonly #byJob = new Map<string, { resolve: (job: JobView) => void; reject: (error: Error) => void }[]>();

  wait(uid: string): Promise<JobView> {
    return new Promise((resolve, reject) => {
      const others = this.#byJob.get(uid);
      if (others) others.push({ resolve, reject });
      else this.#byJob.set(uid, [{ resolve, reject }]);
    });
  }

  has(uid: string): boolean {
    return this.#byJob.has(uid);
  }

  tell(uid: string, job: JobView): void {
    const waiting = this.#byJob.get(uid) ?? [];
    this.#byJob.delete(uid);
    for (const { resolve } of waiting) resolve(job);
  }

  rejectAll(error: Error): void {
    for (const waiting of this.#byJob.values()) for (const { reject } of waiting) reject(error);
    this.#byJob.clear();
  }
}
