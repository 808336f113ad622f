/** A clock that is moved by hand, and timers that follow it; everything else is real. */
import type { Clock, Env, Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { turns } from './flow-kit.ts';

interface Waiting {
  readonly at: number;
  readonly run: () => void;
}

export class VirtualEnv {
  now = Date.UTC(2026, 0, 1);
  readonly #waiting = new Set<Waiting>();
  readonly clock: Clock = { now: () => this.now, monotonic: () => this.now, isMadeUp: true };
  readonly timers: Timers = {
    soon: (run) => void setImmediate(run),
    after: (ms, run) => {
      const waiting = { at: this.now + ms, run };
      this.#waiting.add(waiting);
      return () => void this.#waiting.delete(waiting);
    },
  };

  /** `disk` may be a recording one. */
  env(disk = realEnv().disk): Env {
    return { clock: this.clock, timers: this.timers, random: realEnv().random, disk };
  }

  /** Lets time pass; what was due happens at its instant, in order. */
  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#waiting.delete(next);
      this.now = Math.max(this.now, next.at);
      next.run();
      await turns(2);
    }
    this.now = end;
    await turns(2);
  }

  /** Lets time pass until this has settled. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const settle = (): void => {
      settled = true;
    };
    promise.then(settle, settle);
    while (!settled) await this.pass(1);
    return promise;
  }

  #next(end: number): Waiting | undefined {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting)
      if (waiting.at <= end && (!next || waiting.at < next.at)) next = waiting;
    return next;
  }
}
