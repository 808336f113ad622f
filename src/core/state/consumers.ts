/**
 * The registered consumers, and which of them holds which attempt. Most heartbeats change memory only: a record is written
 * again when a third of its time has passed since the last write. Because of that, a restart gives every consumer its full
 * time again.
 */
import type { ConsumerRecord } from '../../model/consumer-record.ts';
import type { AttemptRecord } from '../../model/records.ts';
import type { JobEntry } from './job-entry.ts';
import { Table } from './tables.ts';

const NEVER = Number.POSITIVE_INFINITY;
const NO_ENTRIES: ReadonlySet<JobEntry> = new Set();
const NO_TOKENS: ReadonlyMap<string, JobEntry> = new Map();

export class ConsumerTable extends Table<ConsumerRecord> {
  readonly #ids = new Map<string, string>();
  readonly #byPool = new Map<string, Set<string>>();
  /** When each consumer that is not silent falls silent unless it sends something. */
  readonly #until = new Map<string, number>();
  /** None of them falls silent before this instant. */
  #next = NEVER;

  override set(id: string, record: ConsumerRecord | null): void {
    const former = this.records.get(id);
    super.set(id, record);
    if (former) this.#ids.delete(former.token);
    if (!record) {
      this.#unlink(id, former);
      return;
    }
    this.#ids.set(record.token, id);
    const pool = this.#byPool.get(record.pool) ?? new Set();
    this.#byPool.set(record.pool, pool.add(id));
    if (record.state === 'silent') this.#until.delete(id);
    else this.#setUntil(id, Math.max(this.#until.get(id) ?? 0, record.seenAt + record.ttlMs));
  }

  #setUntil(id: string, until: number): void {
    this.#until.set(id, until);
    this.#next = Math.min(this.#next, until);
  }

  #unlink(id: string, former: ConsumerRecord | undefined): void {
    this.#until.delete(id);
    const pool = this.#byPool.get(former?.pool ?? '');
    pool?.delete(id);
    if (pool?.size === 0) this.#byPool.delete(former?.pool ?? '');
  }

  /** The id of the consumer with this secret. */
  idOf(token: string): string | undefined {
    return this.#ids.get(token);
  }

  pools(): IterableIterator<string> {
    return this.#byPool.keys();
  }

  ofPool(pool: string): readonly ConsumerRecord[] {
    return [...(this.#byPool.get(pool) ?? [])].flatMap((id) => this.records.get(id) ?? []);
  }

  /** Whether a consumer of the pool hears of work from elsewhere than its own requests. */
  hasListener(pool: string): boolean {
    for (const id of this.#byPool.get(pool) ?? []) {
      const { listens, state } = this.records.get(id) ?? {};
      if (listens !== undefined && state === 'live') return true;
    }
    return false;
  }

  /** The consumer has sent something, which is not written. */
  extend(id: string, until: number): void {
    const before = this.#until.get(id);
    if (before !== undefined) this.#until.set(id, Math.max(until, before));
  }

  /** Gives every consumer its full time: heartbeats could not arrive while no brain was running. */
  renewAll(now: number): void {
    for (const [id, { ttlMs }] of this.records) this.extend(id, now + ttlMs);
  }

  /** Brain time was stepped: the rest of every consumer's time stays as it was. */
  moveInstants(byMs: number): void {
    this.#next += byMs;
    for (const [id, until] of this.#until) this.#until.set(id, until + byMs);
  }

  /** The next instant at which one of them may fall silent. */
  nextExpiry(): number {
    return this.#next;
  }

  expired(now: number): string[] {
    if (this.#next > now) return [];
    const expired: string[] = [];
    this.#next = NEVER;
    for (const [id, until] of this.#until) {
      if (until <= now) expired.push(id);
      else this.#next = Math.min(this.#next, until);
    }
    return expired;
  }
}

/** The attempts of backends whose work is pulled: those that nobody has claimed, and those that consumers hold. */
export class PulledAttempts {
  /** By backend, in the order in which they were recorded, by token. */
  readonly #waiting = new Map<string, Map<string, JobEntry>>();
  /** By the id of the consumer. */
  readonly #held = new Map<string, Set<JobEntry>>();

  waiting(backend: string): ReadonlyMap<string, JobEntry> {
    return this.#waiting.get(backend) ?? NO_TOKENS;
  }

  /** Those of all backends that nobody has claimed. */
  unclaimed(): JobEntry[] {
    return [...this.#waiting.values()].flatMap((waiting) => [...waiting.values()]);
  }

  held(consumer: string): ReadonlySet<JobEntry> {
    return this.#held.get(consumer) ?? NO_ENTRIES;
  }

  /** An attempt has changed; undefined where it was, or is, not open. */
  changed(
    entry: JobEntry,
    token: string,
    before: AttemptRecord | undefined,
    after: AttemptRecord | undefined,
  ): void {
    if (!before?.isPulled && !after?.isPulled) return;
    if (before && isWaiting(before) && !(after && isWaiting(after)))
      drop(this.#waiting, before.backend, token);
    if (after && isWaiting(after)) {
      const waiting = this.#waiting.get(after.backend) ?? new Map<string, JobEntry>();
      this.#waiting.set(after.backend, waiting.set(token, entry));
    }
    const [from, to] = [before?.holder?.consumer, after?.holder?.consumer];
    if (from !== undefined && from !== to) drop(this.#held, from, entry);
    if (to !== undefined) this.#held.set(to, (this.#held.get(to) ?? new Set()).add(entry));
  }
}

const isWaiting = ({ isPulled, state, holder }: AttemptRecord): boolean =>
  isPulled === true && state === 'intended' && holder === undefined;

interface Sized<K> {
  readonly size: number;
  delete(key: K): boolean;
}

function drop<K, V extends Sized<K>>(index: Map<string, V>, id: string, key: K): void {
  const each = index.get(id);
  each?.delete(key);
  if (each?.size === 0) index.delete(id);
}
