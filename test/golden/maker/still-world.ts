/**
 * The environment of the golden data's makers: time stands still until the script moves it, random numbers come
 * from a fixed seed, and the disk is in memory. The same code then writes the same bytes.
 */
import type { Env } from '../../../src/kit/env/env.ts';
import { MemoryDisk } from '../../fakes/memory-disk.ts';

export const START = 1_800_000_000_000;

/** Turns of the event loop without any call under way, after which nothing more is expected to happen. */
const QUIET_TURNS = 40;

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

export class StillWorld {
  now = START;
  readonly disk = new MemoryDisk();
  /** Number of database calls that have not been answered yet. */
  callsUnderWay = 0;
  #timers: Timer[] = [];
  #seed = 20260101;

  readonly env: Env = {
    clock: { now: () => this.now, monotonic: () => this.now - START, isMadeUp: true },
    timers: {
      after: (ms, run) => {
        const timer = { at: this.now + ms, run };
        this.#timers.push(timer);
        return () => {
          this.#timers = this.#timers.filter((each) => each !== timer);
        };
      },
      soon: (run) => {
        setImmediate(run);
      },
    },
    // The same value for all jitter: stores may draw a different number of random values.
    random: { next: () => 0.5, hex: (bytes) => this.#hex(bytes) },
    disk: this.disk,
  };

  /** Waits until everything that was begun has come to rest. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.callsUnderWay > 0) quiet = 0;
    }
  }

  /** Moves time on, and runs the timers that become due in their order. */
  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (;;) {
      await this.settle();
      const next = this.#timers.toSorted((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      this.now = Math.max(this.now, next.at);
      this.#timers = this.#timers.filter((each) => each !== next);
      next.run();
    }
    this.now = end;
    await this.settle();
  }

  /** The value of a promise; as much time passes as its work needs. */
  async settled<T>(work: Promise<T>): Promise<T> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    work.then(over, over);
    await this.settle();
    while (!isOver) await this.pass(1);
    return work;
  }

  #hex(bytes: number): string {
    const digits = Array.from({ length: bytes }, () => {
      this.#seed = (Math.imul(this.#seed, 1664525) + 1013904223) >>> 0;
      return Math.floor((this.#seed / 2 ** 32) * 256)
        .toString(16)
        .padStart(2, '0');
    });
    return digits.join('');
  }
}
