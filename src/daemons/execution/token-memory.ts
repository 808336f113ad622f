/**
 * The tokens that a worker was offered, with their results.
 *
 * M1  A token is begun at most once: it stays known, whatever became of it, until the memory is full.
 * M2  A result is kept until it is acknowledged or room is needed; after that only the fact that it ended is known.
 * M3  Removing a token moves `rememberedSince` past it, so that its absence does not prove that it never ran.
 * M4  A running execution is never removed.
 * M5  Events stay readable for a while after the acknowledgement, for readers that reconnect for the last of them.
 *
 * M6  With a journal, nothing is told of a token before its record is durable: callers wait for `pending`. A token whose
 *     record cannot be written is unknown again.
 *
 * M7  What is erased by order is read by nobody from then on; with a journal it is gone from the disk soon after.
 *
 * Tokens belong to an owner: brains of two owners may choose the same token.
 */
import type { Clock } from '../../kit/env/env.ts';
import type { Execution } from './execution.ts';
import type { TokenJournal } from './token-journal.ts';

export interface TokenMemoryLimits {
  /**
   * Limits of ended executions that are not acknowledged: their number, their bytes together, and the time since their
   * owner asked for them. A result that nobody has asked for has no age: its brain may be down for days.
   */
  readonly maxEnded: number;
  readonly maxEndedBytes: number;
  readonly maxEndedMs: number;
  /** Limits of acknowledged executions, which are kept for readers only. */
  readonly maxAcked: number;
  readonly maxAckedBytes: number;
  readonly maxAckedMs: number;
  /** Maximum number of tokens that are remembered, tombstones included. */
  readonly maxTokens: number;
}

export const TOKEN_MEMORY_LIMITS: TokenMemoryLimits = {
  maxEnded: 2000,
  maxEndedBytes: 256 * 2 ** 20,
  maxEndedMs: 24 * 3_600_000,
  maxAcked: 1000,
  maxAckedBytes: 32 * 2 ** 20,
  maxAckedMs: 60_000,
  maxTokens: 20_000,
};

/** What is known of a token. */
export type TokenRecord =
  | { readonly is: 'execution'; readonly execution: Execution }
  /** The execution has ended, and its outcome is no longer kept. */
  | { readonly is: 'forgotten'; readonly jobId: string; readonly acknowledged: boolean }
  | { readonly is: 'tombstone' };

interface Entry {
  readonly owner: string;
  readonly token: string;
  /** The wall clock when the token was added. */
  readonly at: number;
  record: TokenRecord;
  /** Settles when the token is durable; rejects if it cannot be. Undefined once it is, and without a journal. */
  pending: Promise<void> | undefined;
}

export interface TokenMemoryOptions {
  readonly limits?: Partial<TokenMemoryLimits> | undefined;
  /** Keeps the tokens over the death of the process. */
  readonly journal?: TokenJournal;
  /** `rememberedSince` of an earlier process; now, by default. */
  readonly since?: number;
}

interface EndedExecution {
  readonly entry: Entry;
  readonly bytes: number;
  /** When its owner first asked for it, by the monotonic clock; undefined until then. */
  askedAt: number | undefined;
}

interface AckedExecution {
  readonly execution: Execution;
  readonly bytes: number;
  readonly at: number;
}

export class TokenMemory {
  readonly registry: string;
  readonly #clock: Clock;
  readonly #limits: TokenMemoryLimits;
  /** In the order in which the tokens were added. */
  readonly #entries = new Map<string, Entry>();
  /** The keys of those that are tombstones. */
  readonly #tombstones = new Set<string>();
  /** In the order in which the executions ended. */
  readonly #ended = new Map<string, EndedExecution>();
  #endedBytes = 0;
  /** In the order of the acknowledgements. */
  readonly #acked = new Map<string, AckedExecution>();
  #ackedBytes = 0;
  readonly #journal: TokenJournal | undefined;
  #running = 0;
  #since: number;
  #latest: number;

  constructor(registry: string, clock: Clock, { limits, journal, since }: TokenMemoryOptions = {}) {
    this.registry = registry;
    this.#clock = clock;
    this.#limits = { ...TOKEN_MEMORY_LIMITS, ...limits };
    this.#journal = journal;
    this.#since = since ?? clock.now();
    this.#latest = this.#since;
  }

  get journal(): TokenJournal | undefined {
    return this.#journal;
  }

  /** Every token that was accepted or killed since then is known. */
  get rememberedSince(): number {
    return this.#since;
  }

  /** The wall clock by which `rememberedSince` is to be read. */
  get now(): number {
    return this.#clock.now();
  }

  get running(): number {
    return this.#running;
  }

  /** The number of executions that have ended and are not acknowledged. */
  get unacknowledged(): number {
    return this.#ended.size;
  }

  find(owner: string, token: string): TokenRecord | undefined {
    return this.#entries.get(keyOf(owner, token))?.record;
  }

  /** The execution of a token if its events can be read, also after the acknowledgement (M5). */
  readable(owner: string, token: string): Execution | undefined {
    const key = keyOf(owner, token);
    const record = this.#entries.get(key)?.record;
    return record?.is === 'execution' ? record.execution : this.#acked.get(key)?.execution;
  }

  /** Settles when what is known of a token is durable (M6); rejects if it cannot be. */
  pending(owner: string, token: string): Promise<void> | undefined {
    return this.#entries.get(keyOf(owner, token))?.pending;
  }

  /** The tokens of an owner that run, or have ended and are not acknowledged; the owner has asked for those by this. */
  list(owner: string): { readonly token: string; readonly at: number; readonly record: TokenRecord }[] {
    const now = this.#clock.monotonic();
    for (const ended of this.#ended.values()) if (ended.entry.owner === owner) ended.askedAt ??= now;
    return [...this.#entries.values()].filter(({ owner: entryOwner, record }) => {
      const isOpen = record.is === 'execution' || (record.is === 'forgotten' && !record.acknowledged);
      return isOpen && entryOwner === owner;
    });
  }

  ofJob(owner: string, jobId: string): Execution[] {
    return [...this.#entries.values()].flatMap(({ owner: entryOwner, record }) =>
      entryOwner === owner && record.is === 'execution' && record.execution.jobId === jobId
        ? [record.execution]
        : [],
    );
  }

  allRunning(): Execution[] {
    return [...this.#entries.values()].flatMap(({ record }) =>
      record.is === 'execution' && !record.execution.outcome ? [record.execution] : [],
    );
  }

  /** Adds an execution that is about to begin. */
  add(execution: Execution): void {
    this.#running++;
    const entry = this.#enter(execution.owner, execution.token, { is: 'execution', execution });
    this.#keep(entry, this.#journal?.begun(execution));
  }

  addTombstone(owner: string, token: string): void {
    const entry = this.#enter(owner, token, { is: 'tombstone' });
    this.#keep(entry, this.#journal?.buried(owner, token, entry.at));
  }

  /** Adds what an earlier process knew of a token. */
  restore(owner: string, token: string, at: number, record: TokenRecord): void {
    this.#latest = Math.max(this.#latest, at);
    const entry: Entry = { owner, token, at, record, pending: undefined };
    this.#entries.set(keyOf(owner, token), entry);
    if (record.is === 'tombstone') this.#tombstones.add(keyOf(owner, token));
    if (record.is !== 'execution') return;
    this.#running++;
    if (record.execution.outcome) this.ended(record.execution);
  }

  /** Removes an execution without an outcome: its record could not be written, or the next process goes on with it. */
  leave({ owner, token }: Execution): void {
    if (this.#entries.delete(keyOf(owner, token))) this.#running--;
  }

  /** Called when an execution has its outcome. */
  ended(execution: Execution): void {
    const key = keyOf(execution.owner, execution.token);
    const entry = this.#entries.get(key);
    if (entry?.record.is !== 'execution' || this.#ended.has(key)) return;
    this.#running--;
    const { bytes } = execution;
    this.#ended.set(key, { entry, bytes, askedAt: undefined });
    this.#endedBytes += bytes;
    this.makeRoom();
  }

  /** Drops the result of an ended execution; its events stay readable for a while. */
  acknowledge(owner: string, token: string): void {
    const key = keyOf(owner, token);
    const ended = this.#ended.get(key);
    if (ended?.entry.record.is !== 'execution') return;
    const { execution } = ended.entry.record;
    this.#drop(key, true);
    this.#acked.set(key, { execution, bytes: ended.bytes, at: this.#clock.monotonic() });
    this.#ackedBytes += ended.bytes;
    this.makeRoom();
  }

  /** Drops the result and the events of an ended execution (M7); settles when that is durable. */
  async erase(owner: string, token: string): Promise<void> {
    this.acknowledge(owner, token);
    const key = keyOf(owner, token);
    const acked = this.#acked.get(key);
    if (acked) {
      this.#acked.delete(key);
      this.#ackedBytes -= acked.bytes;
    }
    await this.#journal?.erased(owner, token);
  }

  /** Drops ended and acknowledged executions that exceed a limit, the oldest first. */
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
    for (const [key, { askedAt }] of this.#ended)
      if (askedAt !== undefined && askedAt <= latest) this.#drop(key, false);
    while (this.#ended.size > maxEnded || this.#endedBytes > maxEndedBytes) {
      const owner = this.#busiestOwner();
      for (const [key, { entry }] of this.#ended) {
        if (entry.owner !== owner) continue;
        this.#drop(key, false);
        break;
      }
    }
  }

  /** The owner with the most bytes of results: only its own results make room, so that no owner loses those of another. */
  #busiestOwner(): string | undefined {
    const held = new Map<string, number>();
    for (const { entry, bytes } of this.#ended.values())
      held.set(entry.owner, (held.get(entry.owner) ?? 0) + bytes);
    const [busiest] = [...held].sort(([, a], [, b]) => b - a);
    return busiest?.[0];
  }

  #drop(key: string, acknowledged: boolean): void {
    const ended = this.#ended.get(key);
    if (ended?.entry.record.is !== 'execution') return;
    this.#ended.delete(key);
    this.#endedBytes -= ended.bytes;
    const { owner, token } = ended.entry;
    if (acknowledged) this.#journal?.acknowledged(owner, token);
    else this.#journal?.dropped(owner, token);
    ended.entry.record = { is: 'forgotten', jobId: ended.entry.record.execution.jobId, acknowledged };
  }

  #enter(owner: string, token: string, record: TokenRecord): Entry {
    // A wall clock that is set back must not make a later token look older.
    this.#latest = Math.max(this.#latest, this.#clock.now());
    const added: Entry = { owner, token, at: this.#latest, record, pending: undefined };
    this.#entries.set(keyOf(owner, token), added);
    if (record.is === 'tombstone') this.#tombstones.add(keyOf(owner, token));
    if (this.#entries.size > this.#limits.maxTokens) this.#removeOldest();
    return added;
  }

  /** Tombstones first: a token that has run and is forgotten could be begun again. */
  #removeOldest(): void {
    const [key, entry] = this.#oldestOf(this.#tombstones) ?? this.#oldestOf(this.#entries.keys()) ?? [];
    if (key === undefined || !entry) return;
    this.#entries.delete(key);
    this.#tombstones.delete(key);
    this.#since = Math.max(this.#since, entry.at + 1);
    this.#journal?.removed(entry.owner, entry.token, this.#since);
  }

  #oldestOf(keys: Iterable<string>): [string, Entry] | undefined {
    for (const key of keys) {
      const entry = this.#entries.get(key);
      if (entry && entry.record.is !== 'execution' && !entry.pending) return [key, entry];
    }
    return undefined;
  }

  #keep(entry: Entry, durable: Promise<void> | undefined): void {
    if (!durable) return;
    entry.pending = durable;
    durable.then(
      () => {
        entry.pending = undefined;
      },
      () => {
        // An execution is removed by `leave`, from where its run would have begun.
        if (entry.record.is !== 'tombstone') return;
        this.#entries.delete(keyOf(entry.owner, entry.token));
        this.#tombstones.delete(keyOf(entry.owner, entry.token));
      },
    );
  }
}

/** Unambiguous because the names of owners contain no slash. */
const keyOf = (owner: string, token: string): string => `${owner}/${token}`;
