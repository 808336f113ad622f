/**
 * The real disk under a steady order: one thing happens at a time, and the next one is chosen by program order
 * alone, never by how long the disk took. Callbacks go first, then disk calls in the order they were asked for,
 * and only when nothing else is left does time pass, straight to the next timer. So two runs of the same
 * program make the same calls in the same order, and waits cost nothing.
 */
import type { Cancel, Env, Random } from '../../src/kit/env/env.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import { type Around, type Operation, WatchedDisk } from './watched-disk.ts';

/** 2026-01-01: any instant will do, but the same one every time. */
export const FIRST_INSTANT = 1_767_225_600_000;

export interface SteadyOptions {
  /** The data folder: operations are named relative to it. */
  readonly folder: string;
  readonly startAt: number;
  readonly seed: number;
  /** Virtual duration of each disk call; timers that are due before its end fire first. */
  readonly callMs?: number;
  /** Called before each disk call is made; one that returns a promise is waited for. */
  readonly before?: (operation: Operation) => Promise<void> | undefined;
  /** Called when it has succeeded, before whoever asked for it hears of that. */
  readonly after?: (operation: Operation) => void;
}

/** Far more than anything does at one instant: beyond it something goes round in circles. */
const MAX_STEPS_AT_ONCE = 50_000;

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export class SteadyEnv implements Env {
  readonly clock: Env['clock'];
  readonly timers: Env['timers'];
  readonly random: Random;
  readonly disk: Env['disk'];
  /** Makes a call of the disk, or of another thing outside, when its turn has come. */
  readonly call: Around;
  readonly #soon: (() => void)[] = [];
  readonly #calls: (() => Promise<void>)[] = [];
  #timers: Timer[] = [];
  #timerCount = 0;
  #passedMs = 0;
  readonly #callMs: number;
  #callEnds: number | undefined;
  #driving = false;
  #halted = false;
  #stepsAtOnce = 0;
  #stuck: ((why: string) => void) | undefined;

  constructor(options: SteadyOptions) {
    const now = (): number => options.startAt + this.#passedMs;
    this.clock = { now, monotonic: () => this.#passedMs, isMadeUp: true };
    this.timers = { after: (ms, run) => this.#after(ms, run), soon: (run) => this.#enqueue(this.#soon, run) };
    this.random = seededRandom(options.seed);
    this.#callMs = options.callMs ?? 0;
    const before = options.before ?? (() => undefined);
    this.call = (operation, run) =>
      new Promise((resolve, reject) => {
        this.#enqueue(this.#calls, async () => {
          await before(operation);
          await run().then((value) => {
            options.after?.(operation);
            resolve(value);
          }, reject);
        });
      });
    this.disk = new WatchedDisk(new RealDisk(), options.folder, this.call);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#after(ms, resolve);
    });
  }

  /** Runs something to its end; fails when nothing can happen any more or too much time has passed. */
  async run<T>(main: () => Promise<T>, limitMs: number): Promise<T> {
    const stuck = new Promise<never>((_, reject) => {
      this.#stuck = (why) => reject(new Error(`it has not ended: ${why}`));
      this.#after(limitMs, () => this.#stuck?.(`${limitMs} ms have passed`));
    });
    return Promise.race([main(), stuck]);
  }

  /** Nothing happens any more: what a failed run left behind must not go on for ever. */
  halt(): void {
    this.#halted = true;
  }

  #after(ms: number, run: () => void): Cancel {
    const timer = { at: this.#passedMs + Math.max(0, ms), order: this.#timerCount++, run };
    this.#timers.push(timer);
    this.#timers.sort((a, b) => a.at - b.at || a.order - b.order);
    this.#drive();
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  #enqueue<T>(queue: T[], item: T): void {
    queue.push(item);
    this.#drive();
  }

  #drive(): void {
    if (this.#driving) return;
    this.#driving = true;
    setImmediate(() => this.#step());
  }

  /** Runs one callback or disk call; callbacks that it queues in the same turn run before the next step. */
  #step(): void {
    if (this.#halted) return;
    if (++this.#stepsAtOnce > MAX_STEPS_AT_ONCE) return this.#stuck?.('it goes round without a pause');
    const next = (): void => {
      setImmediate(() => this.#step());
    };
    const soon = this.#soon.shift();
    if (soon) {
      soon();
      return next();
    }
    if (this.#calls.length > 0) this.#callEnds ??= this.#passedMs + this.#callMs;
    const [timer] = this.#timers;
    if (timer && timer.at < (this.#callEnds ?? Number.POSITIVE_INFINITY)) {
      this.#timers.shift();
      this.#passTo(timer.at);
      timer.run();
      return next();
    }
    const call = this.#calls.shift();
    if (call) {
      this.#passTo(this.#callEnds ?? 0);
      this.#callEnds = undefined;
      call().then(next, next);
      return;
    }
    this.#driving = false;
    this.#stuck?.('nothing is under way');
  }

  #passTo(at: number): void {
    if (at <= this.#passedMs) return;
    this.#passedMs = at;
    this.#stepsAtOnce = 0;
  }
}

/** Mulberry32: small, and the same everywhere. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const byte = (): string =>
    Math.floor(next() * 256)
      .toString(16)
      .padStart(2, '0');
  return { next, hex: (bytes) => Array.from({ length: bytes }, byte).join('') };
}
