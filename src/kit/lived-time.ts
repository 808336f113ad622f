/**
 * Counts the time in which a folder was in use, over all processes that used it, by the monotonic clock. What is kept
 * in the folder for a while expires by this count and not by the wall clock: that one may be wrong at a boot, and the
 * days in which the machine was off gave nobody a chance to ask.
 */
import type { Env } from './env/env.ts';
import { readRecord, writeRecord } from './record-file.ts';

interface LivedRecord {
  readonly ms: number;
}

const isLivedRecord = (value: unknown): value is LivedRecord => {
  const { ms } = (value ?? {}) as Partial<LivedRecord>;
  return typeof ms === 'number' && Number.isFinite(ms);
};

export class LivedTime {
  readonly #env: Env;
  readonly #path: string;
  #before = 0;
  #openedAt: number;

  constructor(env: Env, path: string) {
    this.#env = env;
    this.#path = path;
    this.#openedAt = env.clock.monotonic();
  }

  /** Continues the count of earlier processes. */
  async open(): Promise<void> {
    const known = await readRecord(this.#env.disk, this.#path, isLivedRecord);
    this.#before = known?.ms ?? 0;
    this.#openedAt = this.#env.clock.monotonic();
  }

  now(): number {
    return this.#before + this.#env.clock.monotonic() - this.#openedAt;
  }

  /** Called now and then: what a process does not save before it dies is not counted. */
  async save(): Promise<void> {
    await writeRecord(this.#env, this.#path, { ms: Math.floor(this.now()) }, 'visible');
  }
}
