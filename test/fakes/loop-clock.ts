/**
 * Measures how long each turn of the event loop keeps its thread busy: CPU time of the thread, which other processes on
 * the machine do not lengthen, and which includes the garbage collection that the turn has to wait for.
 */
import { createHash } from 'node:crypto';

/** CPU milliseconds of `calibrate` on the machine on which the bounds of the tests were chosen. */
const REFERENCE_MS = 16;

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

export class LoopClock {
  #last = cpuMs();
  #longest = 0;
  #isRunning = true;

  constructor() {
    this.#turn();
  }

  /** CPU milliseconds of the longest turn since the last call. */
  takeLongest(): number {
    const longest = this.#longest;
    this.#longest = 0;
    return longest;
  }

  stop(): void {
    this.#isRunning = false;
  }

  /** Runs once in every turn of the loop, which never sleeps meanwhile. */
  #turn(): void {
    const now = cpuMs();
    this.#longest = Math.max(this.#longest, now - this.#last);
    this.#last = now;
    if (this.#isRunning) setImmediate(() => this.#turn());
  }
}

/** How many times slower than the reference this machine is now; 1 if it is not slower. */
export function slowness(): number {
  const times = Array.from({ length: 5 }, calibrate).sort((a, b) => a - b);
  return Math.max(1, (times[2] as number) / REFERENCE_MS);
}

/** A fixed piece of work like that of a large request: parsing, writing, hashing. */
function calibrate(): number {
  const text = JSON.stringify(
    Array.from({ length: 20_000 }, (_, at) => ({ [`key-${at % 500}`]: at, b: 'x' })),
  );
  const before = cpuMs();
  for (let round = 0; round < 3; round++) {
    createHash('sha256')
      .update(JSON.stringify(JSON.parse(text)))
      .digest();
  }
  return cpuMs() - before;
}
