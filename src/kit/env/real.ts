/** The Env of a real machine: system clock, Node timers, random bytes of the operating system, real disk. */
import { randomFillSync } from 'node:crypto';
import { BlockingDisk } from './blocking-disk.ts';
import type { Env, Random } from './env.ts';
import { RealDisk } from './real-disk.ts';

/** Random bytes are drawn in bulk: one call per id would cost more than the rest of a submit. */
class PooledRandom implements Random {
  readonly #pool = Buffer.alloc(8192);
  #used = this.#pool.length;

  next(): number {
    return this.#pool.readUIntBE(this.#take(6), 6) / 2 ** 48;
  }

  hex(bytes: number): string {
    const start = this.#take(bytes);
    return this.#pool.toString('hex', start, start + bytes);
  }

  /** Reserves `bytes` unused bytes of the pool, refilling it if needed, and returns where they begin. */
  #take(bytes: number): number {
    if (this.#used + bytes > this.#pool.length) {
      randomFillSync(this.#pool);
      this.#used = 0;
    }
    const start = this.#used;
    this.#used += bytes;
    return start;
  }
}

export function realEnv(): Env {
  return {
    clock: { now: () => Date.now(), monotonic: () => performance.now() },
    timers: {
      after(ms, run) {
        // Node fires a timer with a delay over 2^31 - 1 ms after 1 ms.
        const timer = setTimeout(run, Math.min(ms, 2 ** 31 - 1));
        return () => clearTimeout(timer);
      },
      soon(run) {
        setImmediate(run);
      },
    },
    random: new PooledRandom(),
    disk: new RealDisk(),
  };
}

/** The Env of a process that does nothing but work on the disk: see BlockingDisk. */
export const diskWorkerEnv = (): Env => ({ ...realEnv(), disk: new BlockingDisk() });
