/**
 * Measures how long each turn of the event loop keeps its thread busy: CPU time of the thread, which other processes on
 * the machine do not lengthen, and which includes the garbage collection that the turn has to wait for.
 */
import { createHash } from 'node:crypto';

/** CPU milliseconds of `calibrate` on the machine on which the bounds of the tests were chosen. */
const REFERENCE_MS = 16;
/** A request that is too much work is so in every run; the garbage of others, and other processes, disturb only some. */
const MAX_RUNS = 8;

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** The longest turn of the best run, in ms of the reference machine, and all runs in words. */
export interface BestRun {
  readonly longestMs: number;
  readonly said: string;
}

export class LoopClock {
  #last = cpuMs();
  #longest = 0;
  #isRunning = true;
  #slowness = slowness();

  constructor() {
    this.#turn();
  }

  /** Repeats `run` until no turn of it takes longer than `maxMs`, MAX_RUNS times at most; `prepare` is not measured. */
  async best(
    maxMs: number,
    run: (at: number) => Promise<void>,
    prepare?: (at: number) => Promise<void>,
  ): Promise<BestRun> {
    const runs: number[] = [];
    while (runs.length < MAX_RUNS && !runs.some((ms) => ms <= maxMs)) {
      await prepare?.(runs.length);
      // The present turn is the test's own.
      await nextTurn();
      await nextTurn();
      this.#longest = 0;
      await run(runs.length);
      const longest = this.#longest;
      // The machine may be slower by now than when it was measured.
      if (longest / this.#slowness > maxMs) this.#slowness = slowness();
      runs.push(Math.round(longest / this.#slowness));
    }
    return {
      longestMs: Math.min(...runs),
      said: `${runs.join(', ')} ms (machine ${this.#slowness.toFixed(2)})`,
    };
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

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** How many times slower than the reference this machine is now; 1 if it is not slower. */
function slowness(): number {
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
