/**
 * A world with its own time and chance. Everything that happens in it is an event on one heap; between two
 * events all promises settle. The same seed gives the same world.
 */
import type { Cancel, Clock, Random, Timers } from '../../src/kit/env/env.ts';

export class SeededRandom implements Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed ^ 0x9e3779b9) >>> 0;
  }

  /** mulberry32 */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  hex(bytes: number): string {
    let text = '';
    while (text.length < 2 * bytes)
      text += Math.floor(this.next() * 256)
        .toString(16)
        .padStart(2, '0');
    return text;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(items.length)] as T;
  }
}

interface Scheduled {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
  cancelled: boolean;
}

const EPOCH = Date.UTC(2026, 0, 1);

export class World {
  readonly random: SeededRandom;
  #now = 0;
  #order = 0;
  #events = 0;
  #trace = 0;
  #wrongByMs = 0;
  readonly #heap: Scheduled[] = [];

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
  }

  get now(): number {
    return this.#now;
  }

  get events(): number {
    return this.#events;
  }

  /** A running hash of everything that was noted: two runs of a seed must agree on it. */
  get trace(): number {
    return this.#trace;
  }

  note(what: string): void {
    let hash = this.#trace;
    for (let at = 0; at < what.length; at++) hash = (Math.imul(hash, 31) + what.charCodeAt(at)) | 0;
    this.#trace = hash;
  }

  after(ms: number, run: () => void): Cancel {
    const scheduled: Scheduled = {
      at: this.#now + Math.max(0, ms),
      order: this.#order++,
      run,
      cancelled: false,
    };
    this.#push(scheduled);
    return () => {
      scheduled.cancelled = true;
    };
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(ms, resolve);
    });
  }

  /** Lets one event happen; false when nothing is left. */
  async step(): Promise<boolean> {
    let next = this.#pop();
    while (next?.cancelled) next = this.#pop();
    if (!next) return false;
    this.#now = next.at;
    this.#events++;
    next.run();
    await new Promise<void>((resolve) => setImmediate(resolve));
    return true;
  }

  async runUntil(done: () => boolean, limitMs: number): Promise<boolean> {
    const end = this.#now + limitMs;
    while (!done()) {
      if (this.#now > end || !(await this.step())) return done();
    }
    return true;
  }

  get clock(): Clock {
    return { now: () => EPOCH + this.#now + this.#wrongByMs, monotonic: () => this.#now };
  }

  /** What the wall clock shows where nobody has set it wrong. */
  get trueTime(): number {
    return EPOCH + this.#now;
  }

  /** Somebody sets the wall clock of all machines: from now on it is wrong by so much. */
  setClockWrong(byMs: number): void {
    this.#wrongByMs = byMs;
  }

  /** Timers that stop with their owner. */
  timersFor(owner: { readonly alive: boolean }): Timers {
    const guarded = (run: () => void) => () => {
      if (owner.alive) run();
    };
    return {
      after: (ms, run) => this.after(ms, guarded(run)),
      soon: (run) => {
        this.after(0, guarded(run));
      },
    };
  }

  #push(item: Scheduled): void {
    const heap = this.#heap;
    let at = heap.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(item, heap[parent] as Scheduled)) break;
      heap[at] = heap[parent] as Scheduled;
      at = parent;
    }
    heap[at] = item;
  }

  #pop(): Scheduled | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (!top || !last || top === last) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Scheduled, heap[child] as Scheduled)) child++;
      if (!before(heap[child] as Scheduled, last)) break;
      heap[at] = heap[child] as Scheduled;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

const before = (a: Scheduled, b: Scheduled): boolean => (a.at === b.at ? a.order < b.order : a.at < b.at);
