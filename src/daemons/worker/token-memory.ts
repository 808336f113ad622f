/**
 * What a worker remembers of the tokens it was offered.
 *
 * M1  A token is begun at most once: whatever it was, it stays known until the memory is full.
 * M2  A result stays until it is acknowledged or room is needed; after that it is known that it ended, not how.
 * M3  Whatever is forgotten altogether moves `rememberedSince` past it, so that silence about it proves nothing.
 * M4  Nothing that runs is ever forgotten.
 * M5  What was acknowledged can be read for a while: a reader that lost its brain comes back for the last words.
 * Tokens are those of an owner: two brains may choose the same.
 */
import type { Clock } from '../../kit/env/env.ts';
import type { Execution } from './execution.ts';

export interface MemoryLimits {
  /** Of ended executions that wait to be acknowledged: how many, how large together, and for how long. */
  readonly maxEnded: number;
  readonly maxEndedBytes: number;
  readonly maxEndedMs: number;
  /** The same of those that were acknowledged, and may only be read. */
  readonly maxAcked: number;
  readonly maxAckedBytes: number;
  readonly maxAckedMs: number;
  /** Tokens that are known at all, tombstones among them. */
  readonly maxTokens: number;
}

export const MEMORY_LIMITS: MemoryLimits = {
  maxEnded: 2000,
  maxEndedBytes: 256 * 2 ** 20,
  maxEndedMs: 24 * 3_600_000,
  maxAcked: 1000,
  maxAckedBytes: 32 * 2 ** 20,
  maxAckedMs: 60_000,
  maxTokens: 20_000,
};

export type Remembered =
  | { readonly is: 'execution'; readonly execution: Execution }
  /** It has run and ended; how is no longer known. */
  | { readonly is: 'forgotten'; readonly jobId: string; readonly acknowledged: boolean }
  | { readonly is: 'tombstone' };

interface Entry {
  readonly owner: string;
  readonly token: string;
  /** When it was first heard of. */
  readonly at: number;
  what: Remembered;
}

interface Ended {
  readonly entry: Entry;
  readonly bytes: number;
  readonly at: number;
}

interface Acked {
  readonly execution: Execution;
  readonly bytes: number;
  readonly at: number;
}

export class Memory {
  readonly registry: string;
  readonly #clock: Clock;
  readonly #limits: MemoryLimits;
  /** In the order in which they were first heard of. */
  readonly #entries = new Map<string, Entry>();
  /** In the order in which they ended. */
  readonly #ended = new Map<string, Ended>();
  #endedBytes = 0;
  /** In the order in which they were acknowledged. */
  readonly #acked = new Map<string, Acked>();
  #ackedBytes = 0;
  #running = 0;
  #since: number;
  #latest: number;

  constructor(registry: string, clock: Clock, limits: Partial<MemoryLimits> = {}) {
    this.registry = registry;
    this.#clock = clock;
    this.#limits = { ...MEMORY_LIMITS, ...limits };
    this.#since = clock.now();
    this.#latest = this.#since;
  }

  /** Every token that was offered since then is known. */
  get rememberedSince(): number {
    return this.#since;
  }

  get running(): number {
    return this.#running;
  }

  /** How many have ended and were not acknowledged. */
  get waiting(): number {
    return this.#ended.size;
  }

  find(owner: string, token: string): Remembered | undefined {
    return this.#entries.get(keyOf(owner, token))?.what;
  }

  /** Whose events can be read. */
  readable(owner: string, token: string): Execution | undefined {
    const key = keyOf(owner, token);
    const what = this.#entries.get(key)?.what;
    return what?.is === 'execution' ? what.execution : this.#acked.get(key)?.execution;
  }

  /** Those of one owner that run, or have ended without having been acknowledged. */
  list(owner: string): { readonly token: string; readonly what: Remembered }[] {
    return [...this.#entries.values()].filter(({ owner: whose, what }) => {
      const wanted = what.is === 'execution' || (what.is === 'forgotten' && !what.acknowledged);
      return wanted && whose === owner;
    });
  }

  ofJob(owner: string, jobId: string): Execution[] {
    return [...this.#entries.values()].flatMap(({ owner: whose, what }) =>
      whose === owner && what.is === 'execution' && what.execution.jobId === jobId ? [what.execution] : [],
    );
  }

  allRunning(): Execution[] {
    return [...this.#entries.values()].flatMap(({ what }) =>
      what.is === 'execution' && !what.execution.outcome ? [what.execution] : [],
    );
  }

  /** It is about to begin. */
  add(execution: Execution): void {
    this.#running++;
    this.#enter(execution.owner, execution.token, { is: 'execution', execution });
  }

  bury(owner: string, token: string): void {
    this.#enter(owner, token, { is: 'tombstone' });
  }

  /** It has its outcome. */
  ended(execution: Execution): void {
    const key = keyOf(execution.owner, execution.token);
    const entry = this.#entries.get(key);
    if (entry?.what.is !== 'execution' || this.#ended.has(key)) return;
    this.#running--;
    const { bytes } = execution;
    this.#ended.set(key, { entry, bytes, at: this.#clock.monotonic() });
    this.#endedBytes += bytes;
    this.makeRoom();
  }

  /** The result of one that has ended may go; for a while it can be read. */
  acknowledge(owner: string, token: string): void {
    const key = keyOf(owner, token);
    const ended = this.#ended.get(key);
    if (ended?.entry.what.is !== 'execution') return;
    const { execution } = ended.entry.what;
    this.#drop(key, true);
    this.#acked.set(key, { execution, bytes: ended.bytes, at: this.#clock.monotonic() });
    this.#ackedBytes += ended.bytes;
    this.makeRoom();
  }

  /** Drops what has waited for too long, or is too much; the oldest first. */
  makeRoom(): void {
    this.#dropEnded();
    this.#dropAcked();
  }

  #dropAcked(): void {
    const { maxAcked, maxAckedBytes, maxAckedMs } = this.#limits;
    const latest = this.#clock.monotonic() - maxAckedMs;
    for (const [key, { at, bytes }] of this.#acked) {
      if (at > latest && this.#acked.size <= maxAcked && this.#ackedBytes <= maxAckedBytes) break;
      this.#acked.delete(key);
      this.#ackedBytes -= bytes;
    }
  }

  #dropEnded(): void {
    const { maxEnded, maxEndedBytes, maxEndedMs } = this.#limits;
    const latest = this.#clock.monotonic() - maxEndedMs;
    for (const [key, { at }] of this.#ended) {
      if (at > latest && this.#ended.size <= maxEnded && this.#endedBytes <= maxEndedBytes) break;
      this.#drop(key, false);
    }
  }

  #drop(key: string, acknowledged: boolean): void {
    const ended = this.#ended.get(key);
    if (ended?.entry.what.is !== 'execution') return;
    this.#ended.delete(key);
    this.#endedBytes -= ended.bytes;
    ended.entry.what = { is: 'forgotten', jobId: ended.entry.what.execution.jobId, acknowledged };
  }

  #enter(owner: string, token: string, what: Remembered): void {
    // A clock that is set back must not make a later token look like an earlier one.
    this.#latest = Math.max(this.#latest, this.#clock.now());
    this.#entries.set(keyOf(owner, token), { owner, token, at: this.#latest, what });
    if (this.#entries.size <= this.#limits.maxTokens) return;
    for (const [key, entry] of this.#entries) {
      if (entry.what.is === 'execution') continue;
      this.#entries.delete(key);
      this.#since = Math.max(this.#since, entry.at + 1);
      return;
    }
  }
}

/** Names of owners have no slash. */
const keyOf = (owner: string, token: string): string => `${owner}/${token}`;
