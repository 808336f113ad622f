/**
 * The reference store: everything is in a Medium, which outlives the stores opened on it as a disk would. For tests,
 * and for programs that need no persistence. It is the shortest complete implementation of the Store port.
 */
import type { SessionKeys } from '../../core/ports/keys.ts';
import type { LedgerReads } from '../../core/ports/ledger.ts';
import type { SessionArchive } from '../../core/ports/sessions.ts';
import type {
  HistoryReads,
  JobBundle,
  KeptJob,
  PurgePlan,
  Recovered,
  Recovery,
  Seq,
  Store,
  StoreCapabilities,
  StoreEvents,
} from '../../core/ports/store.ts';
import type { Timers } from '../../kit/env/env.ts';
import type { BlobRef } from '../../model/body.ts';
import type { Charge } from '../../model/charge.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Change } from '../../model/records.ts';
import { ArchivedSessions } from '../archived-sessions.ts';
import { Charges, chargeIn } from '../charges.ts';
import { EndedJobs } from '../ended-jobs.ts';
import { KeyMedium, MemoryKeys } from './keys.ts';

interface MemoryRef extends BlobRef {
  /** Index in Medium.blobs. */
  readonly at: number;
}

/** The stored data; pass the same Medium to a second MemoryStore to reopen it. */
export class Medium {
  readonly changes: Change[] = [];
  readonly blobs: string[] = [];
  readonly keys = new KeyMedium();
  readonly history = new EndedJobs();
  readonly charges = new Charges();
  readonly sessions = new ArchivedSessions();
  indexedUpTo = 0;
  /** The instant of the last commit. */
  lastAt = 0;
  /** Number of stores that have opened this medium; every store but the last of them is fenced. */
  openings = 0;
}

export class MemoryStore implements Store {
  readonly capabilities: StoreCapabilities = { secondOpener: 'epoch' };
  readonly overloaded = false;
  readonly keys: SessionKeys;
  readonly #medium: Medium;
  readonly #timers: Timers;
  /** The value of Medium.openings when this store opened it. */
  #opening = 0;
  #events: StoreEvents | undefined;
  #seq = 0;
  #lastAt = 0;
  #pending: Change[] = [];
  #pendingCharges: Charge[] = [];
  #flushing = false;
  #closed = false;
  #failure: Error | undefined;
  #whenFlushed: (() => void)[] = [];

  constructor(timers: Timers, medium = new Medium()) {
    this.#timers = timers;
    this.#medium = medium;
    this.keys = new MemoryKeys(this.#medium.keys, () => this.#assertNotFenced());
  }

  get history(): HistoryReads {
    const { history } = this.#medium;
    return {
      get: async (uid) => history.get(uid),
      list: async (query) => history.list(query),
      between: async (from, below, limit) => history.between(from, below, limit),
      count: async () => history.count(),
    };
  }

  get ledger(): LedgerReads {
    const { charges } = this.#medium;
    return {
      sums: async (window, by, limit) => charges.sums(window, by, limit),
      page: async (window, after, limit) => charges.page(window, after, limit),
    };
  }

  get sessions(): SessionArchive {
    const { sessions } = this.#medium;
    return {
      put: async (records) => {
        this.#assertNotFenced();
        sessions.put(records);
      },
      drop: async (names) => {
        this.#assertNotFenced();
        sessions.drop(names);
      },
      get: async (tenant, id) => sessions.get(tenant, id),
      list: async (query) => sessions.list(query),
      oldest: async (usedBefore, limit) => sessions.oldest(usedBefore, limit),
      isEmpty: async () => sessions.isEmpty(),
    };
  }

  async open(events: StoreEvents, _now: number, into: Recovery): Promise<Recovered> {
    const { changes, lastAt, indexedUpTo } = this.#medium;
    this.#events = events;
    this.#opening = ++this.#medium.openings;
    this.#seq = changes.length;
    changes.forEach((change, at) => {
      into.change(change, at + 1);
    });
    return { seq: this.#seq, at: lastAt, indexedUpTo };
  }

  holds(): boolean {
    return this.#failure === undefined;
  }

  append(changes: readonly Change[], now: number): Seq {
    if (this.#failure) throw new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure });
    this.#lastAt = now;
    for (const change of changes) {
      this.#pending.push(change);
      const charge = chargeIn(change, (uid) => this.#events?.ask(uid));
      if (charge) this.#pendingCharges.push(charge);
    }
    this.#seq += changes.length;
    if (!this.#flushing) {
      this.#flushing = true;
      this.#timers.soon(() => this.#flush());
    }
    return this.#seq;
  }

  async putBlob(text: string): Promise<BlobRef> {
    this.#assertNotFenced();
    const ref: MemoryRef = { bytes: Buffer.byteLength(text), at: this.#medium.blobs.push(text) - 1 };
    return ref;
  }

  async readBlob(ref: BlobRef): Promise<Buffer> {
    const text = this.#medium.blobs[(ref as MemoryRef).at];
    if (text === undefined) throw new OrchdError('STORE_CORRUPT', 'no such blob');
    return Buffer.from(text);
  }

  isScattered(): boolean {
    return false;
  }

  index(ended: readonly JobBundle[], upTo: Seq): void {
    if (this.#opening !== this.#medium.openings) return;
    for (const bundle of ended) this.#medium.history.put(bundle);
    this.#medium.indexedUpTo = upTo;
    if (ended.length > 0) this.#timers.soon(() => !this.#closed && this.#events?.indexed(ended));
  }

  async planPurge(endedBefore: number, limit: number): Promise<PurgePlan> {
    return this.#medium.history.planPurge(endedBefore, limit);
  }

  async purge(endedBefore: number, limit: number, _now: number, kept?: readonly KeptJob[]): Promise<void> {
    this.#medium.history.purge(endedBefore, limit, kept);
  }

  async dropCharges(settledBefore: number, limit: number): Promise<number> {
    return this.#medium.charges.drop(settledBefore, limit);
  }

  async checkpoint(): Promise<void> {}

  async close(): Promise<void> {
    if (this.#flushing) await new Promise<void>((done) => this.#whenFlushed.push(done));
    this.#closed = true;
  }

  #flush(): void {
    this.#flushing = false;
    try {
      this.#assertNotFenced();
    } catch (error) {
      this.#failure = error as Error;
      this.#events?.failed(this.#failure);
      for (const done of this.#whenFlushed.splice(0)) done();
      return;
    }
    this.#medium.lastAt = this.#lastAt;
    for (const change of this.#pending) this.#medium.changes.push(change);
    for (const charge of this.#pendingCharges) this.#medium.charges.put(charge);
    this.#pending = [];
    this.#pendingCharges = [];
    this.#events?.durable(this.#medium.changes.length);
    for (const done of this.#whenFlushed.splice(0)) done();
  }

  #assertNotFenced(): void {
    if (this.#opening !== this.#medium.openings) throw new OrchdError('FENCED');
  }
}
