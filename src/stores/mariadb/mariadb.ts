/**
 * The store of a cluster: records are rows, every change is a row of the audit table, and one leader writes at a time.
 *
 * M1  A commit begins with the fence: epoch and sequence number must be the ones this store has written last.
 * M2  A commit whose answer is lost is settled by the fence row: it has happened, or it is made again.
 * M3  A sequence number is reported durable only after its commit was answered, or found done.
 */

import type { Term } from '../../core/ports/leadership.ts';
import type { LedgerReads } from '../../core/ports/ledger.ts';
import type { SessionArchive } from '../../core/ports/sessions.ts';
import type {
  BlobTies,
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
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import type { BlobRef } from '../../model/body.ts';
import type { Charge } from '../../model/charge.ts';
import { OrchdError } from '../../model/errors.ts';
import { BRAIN_ID, type Change } from '../../model/records.ts';
import { chargeIn } from '../charges.ts';
import { putBlob, readBlob } from './blobs.ts';
import { dropCharges, TableLedger } from './charges.ts';
import { type Batch, commitBatch, lastOf } from './commit.ts';
import { planPurge, purge, TableHistory } from './history.ts';
import { TableKeys } from './keys.ts';
import { brainOf, confirmLead, type EpochRow, recoverJobs, recoverOthers, takeOver } from './recover.ts';
import { dropEndedLeases, dropUnnamedBodies, trimAudit } from './retention.ts';
import { TableArchive } from './sessions.ts';
import { SharedConnection } from './shared-connection.ts';
import { type Connect, isConflict, isDiskFull, isLost, isReadOnly, type Sql } from './sql.ts';
import { checkDurable, migrate } from './tables.ts';

export interface MariaDbOptions {
  readonly connect: Connect;
  /** Accepts a server that may lose commits it has answered. */
  readonly unsafe?: boolean;
  /** Audit rows that are older than auditMs are removed, and the oldest ones beyond auditBytes. */
  readonly auditMs?: number;
  readonly auditBytes?: number;
  /** The lead that the election has given to this node; without a term the store takes the lead by force. */
  readonly term?: Term;
}

/** Changes of one commit, at most: a commit must not hold its locks for long. */
const MAX_BATCH = 2000;
const MAX_PENDING = 200_000;
const RETRY_MS = 100;
const COMMIT_TIMEOUT_MS = 15_000;
/** A read is tried again once: its caller waits twice as long at most. */
const READ_SILENT_MS = 15_000;
/** Audit rows that one purge removes, at most: as many may have been added since the last one. */
const MAX_TRIMMED = 100_000;

interface Unit {
  readonly changes: readonly Change[];
  readonly charges: readonly Charge[];
  readonly now: number;
}

export class MariaDbStore implements Store {
  readonly capabilities: StoreCapabilities = { secondOpener: 'epoch' };
  readonly history: HistoryReads;
  readonly ledger: LedgerReads;
  readonly sessions: SessionArchive;
  readonly keys: TableKeys;
  readonly #env: Env;
  readonly #options: MariaDbOptions;
  readonly #writes: SharedConnection;
  readonly #reads: SharedConnection;
  /** The connection for sums over many charges, which take long. */
  readonly #sums: SharedConnection;
  /** The connection for retention, which takes long and has transactions of its own. */
  readonly #chores: SharedConnection;
  /** The connection for writes to the archive of sessions. */
  readonly #archive: SharedConnection;
  #events: StoreEvents | undefined;
  #epoch = 0;
  #seq = 0;
  #durable = 0;
  #pending: Unit[] = [];
  #pendingCount = 0;
  #unindexed: { uid: string; seq: Seq }[] = [];
  #flushing: Promise<void> | undefined;
  #full = false;
  /** The last try of a commit was not answered: it may have happened. */
  #doubtful = false;
  #failure: Error | undefined;
  #closed = false;
  /** Bodies up to this id have been checked for a job that names them; the next purge goes on from here. */
  #tidiedTo = 0;

  constructor(env: Env, options: MariaDbOptions) {
    this.#env = env;
    this.#options = options;
    this.#writes = new SharedConnection(options.connect);
    this.#reads = new SharedConnection(() => options.connect({ silentMs: READ_SILENT_MS }));
    this.#sums = new SharedConnection(options.connect);
    this.#chores = new SharedConnection(options.connect);
    this.#archive = new SharedConnection(options.connect);
    this.history = new TableHistory(this.#reads);
    this.ledger = new TableLedger(this.#sums);
    this.sessions = new TableArchive(this.#reads, this.#archive, () => this.#epoch);
    this.keys = new TableKeys(this.#reads, env.random, () => this.#epoch);
  }

  get overloaded(): boolean {
    return this.#pendingCount > MAX_PENDING;
  }

  async open(events: StoreEvents, _now: number, into: Recovery): Promise<Recovered> {
    const { term, unsafe = false } = this.#options;
    this.#events = events;
    void term?.over.then(() => this.#depose());
    try {
      const sql = await this.#writes.get();
      await checkDurable(sql, unsafe);
      await migrate(sql);
      const row = term ? await confirmLead(sql, term.epoch) : await takeOver(sql);
      const skewMs = this.#env.clock.isMadeUp ? 0 : await this.#skew(sql);
      await recoverJobs(sql, into);
      await recoverOthers(sql, into);
      const brain = brainOf(row);
      if (brain) into.record({ kind: 'brain', id: BRAIN_ID, after: brain });
      this.#epoch = row.epoch;
      this.#seq = row.last_seq;
      this.#durable = row.last_seq;
      // Jobs that are over are never handed over: the tables are their history.
      return { seq: row.last_seq, at: row.last_at, indexedUpTo: row.last_seq, skewMs };
    } catch (error) {
      await this.#closeConnections();
      throw openFailure(error);
    }
  }

  holds(): boolean {
    return !this.#failure && (this.#options.term?.holds() ?? true);
  }

  append(changes: readonly Change[], now: number): Seq {
    if (this.#failure) throw new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure });
    this.#pending.push({ changes, charges: this.#chargesIn(changes), now });
    this.#pendingCount += changes.length;
    this.#seq += changes.length;
    this.#flushing ??= this.#flushAll();
    return this.#seq;
  }

  #chargesIn(changes: readonly Change[]): Charge[] {
    const charges: Charge[] = [];
    for (const change of changes) {
      const charge = chargeIn(change, (uid) => this.#events?.ask(uid));
      if (charge) charges.push(charge);
    }
    return charges;
  }

  async putBlob(text: string, ties?: BlobTies): Promise<BlobRef> {
    try {
      return await this.#reads.read((sql) => putBlob(sql, text, ties?.owner));
    } catch (error) {
      if (isDiskFull(error)) throw new OrchdError('STORE_FULL', undefined, {}, { cause: error });
      if (isReadOnly(error))
        throw new OrchdError('STORE_BUSY', 'the database is read-only now', {}, { cause: error });
      throw error;
    }
  }

  readBlob(ref: BlobRef): Promise<Buffer> {
    return this.#reads.read((sql) => readBlob(sql, ref));
  }

  /** Every body is a row of its own, wherever the others are. */
  isScattered(): boolean {
    return false;
  }

  /** Ended jobs are in the tables already: they may leave memory as soon as their last change is durable. */
  index(ended: readonly JobBundle[]): void {
    if (ended.length === 0) return;
    for (const { uid, seq } of ended) this.#unindexed.push({ uid, seq });
    this.#env.timers.soon(() => this.#tellIndexed());
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgePlan> {
    return this.#chores.read((sql) => planPurge(sql, endedBefore, limit));
  }

  purge(endedBefore: number, limit: number, now: number, kept?: readonly KeptJob[]): Promise<void> {
    return this.#chores.read(async (sql) => {
      await purge(sql, this.#epoch, endedBefore, limit, kept);
      await this.#tidy(sql, now);
    });
  }

  dropCharges(settledBefore: number, limit: number): Promise<number> {
    return this.#chores.read((sql) => dropCharges(sql, this.#epoch, settledBefore, limit));
  }

  /** Removes some of the bodies that no job names, and audit rows past their time. */
  async #tidy(sql: Sql, now: number): Promise<void> {
    this.#tidiedTo = await dropUnnamedBodies(sql, this.#epoch, this.#tidiedTo);
    const { auditMs = Number.POSITIVE_INFINITY, auditBytes = Number.POSITIVE_INFINITY } = this.#options;
    if (auditMs === Number.POSITIVE_INFINITY && auditBytes === Number.POSITIVE_INFINITY) return;
    const before = Math.max(0, now - auditMs);
    await trimAudit(sql, this.#epoch, { before, bytes: auditBytes }, MAX_TRIMMED);
    await dropEndedLeases(sql, this.#epoch, before, MAX_TRIMMED);
  }

  /** There is nothing to do: rows are always up to date. */
  async checkpoint(): Promise<void> {}

  async close(): Promise<void> {
    this.#closed = true;
    await this.#flushing;
    await this.#closeConnections();
  }

  /** Clock of the database minus ours. Nodes lead in turns and their clocks need not agree, so times are the database's. */
  async #skew(sql: Sql): Promise<number> {
    const [row] = await sql.query<{ now: number }>('SELECT UNIX_TIMESTAMP(NOW(6)) * 1000 AS now');
    return Math.round(Number(row?.now) - this.#env.clock.now());
  }

  async #closeConnections(): Promise<void> {
    for (const connection of this.#connections()) await connection.close();
  }

  #connections(): readonly SharedConnection[] {
    return [this.#writes, this.#reads, this.#sums, this.#chores, this.#archive];
  }

  /** Another node may lead now. The server may not answer any more, so calls under way are not waited for. */
  #depose(): void {
    if (this.#closed) return;
    this.#fail(new OrchdError('FENCED'));
    for (const connection of this.#connections()) connection.destroy();
  }

  #tellIndexed(): void {
    if (this.#closed || this.#failure) return;
    const ready = this.#unindexed.filter(({ seq }) => seq <= this.#durable);
    if (ready.length === 0) return;
    this.#unindexed = this.#unindexed.filter(({ seq }) => seq > this.#durable);
    this.#events?.indexed(ready);
  }

  async #flushAll(): Promise<void> {
    try {
      // Changes that the same turn of the event loop appends go into the same commit.
      await new Promise<void>((resolve) => this.#env.timers.soon(resolve));
      while (this.#pending.length > 0) await this.#flush(this.#take());
      this.#flushing = undefined;
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  /** Takes whole units of pending changes: what one turn of the engine decided becomes durable together. */
  #take(): Batch {
    const changes: Change[] = [];
    const charges: Charge[] = [];
    let now = 0;
    let taken = 0;
    for (const unit of this.#pending) {
      if (taken > 0 && changes.length + unit.changes.length > MAX_BATCH) break;
      for (const change of unit.changes) changes.push(change);
      for (const charge of unit.charges) charges.push(charge);
      now = unit.now;
      taken++;
    }
    this.#pending = this.#pending.slice(taken);
    return { changes, charges, after: this.#durable, now };
  }

  async #flush(batch: Batch): Promise<void> {
    const since = this.#env.clock.monotonic();
    const left = (): number => since + COMMIT_TIMEOUT_MS - this.#env.clock.monotonic();
    while (!(await this.#commitWithin(batch, this.#full ? COMMIT_TIMEOUT_MS : left()))) {
      if (this.#failure) throw this.#failure;
      if (this.#options.term && !this.#full && left() <= 0) this.#giveUpLead();
      await this.#pause();
    }
    this.#doubtful = false;
    this.#setFull(false);
    this.#pendingCount -= batch.changes.length;
    this.#durable = lastOf(batch);
    crashpoint('commit:before-replies');
    this.#events?.durable(this.#durable);
    this.#tellIndexed();
  }

  /** This node leads and can write nothing: it gives up the lead, because another node may reach the database. */
  #giveUpLead(): never {
    // A server that does not answer commits may not answer anything: nobody waits for it to close them.
    for (const connection of this.#connections()) connection.destroy();
    throw new OrchdError('FENCED', 'the database takes no commits from this node');
  }

  /** A leader waits no longer than this for an answer, which may never come: then the connection is given up. */
  async #commitWithin(batch: Batch, ms: number): Promise<boolean> {
    if (!this.#options.term) return this.#commit(batch);
    const cancel = this.#env.timers.after(Math.max(1, ms), () => this.#writes.destroy());
    try {
      return await this.#commit(batch);
    } finally {
      cancel();
    }
  }

  /** Returns whether the batch is durable now; where it is not, the commit may be tried again. */
  async #commit(batch: Batch): Promise<boolean> {
    try {
      await this.#writes.once((sql) => this.#commitOn(sql, batch));
      return true;
    } catch (error) {
      if (!isTransient(error) && !isDiskFull(error)) throw error;
      if (isDiskFull(error)) this.#setFull(true);
      this.#doubtful = true;
      return false;
    }
  }

  /**
   * Where the answer of an earlier try was lost, the fence row is read first. That try may still be under way: then it
   * holds the lock of the row, and this one finds that the same batch has moved the fence on.
   */
  async #commitOn(sql: Sql, batch: Batch): Promise<void> {
    if (this.#doubtful && (await this.#isDone(sql, batch))) return;
    if (await commitBatch(sql, batch, this.#epoch)) return;
    if (!(await this.#isDone(sql, batch))) throw new OrchdError('FENCED');
  }

  async #isDone(sql: Sql, batch: Batch): Promise<boolean> {
    const [row] = await sql.query<EpochRow>('SELECT epoch, last_seq FROM orchestrator_epoch WHERE id = 1');
    if (row?.epoch !== this.#epoch) throw new OrchdError('FENCED');
    return row.last_seq === lastOf(batch);
  }

  #setFull(full: boolean): void {
    if (full === this.#full) return;
    this.#full = full;
    this.#events?.space(full);
  }

  #pause(): Promise<void> {
    if (this.#closed) throw new OrchdError('STORE_FAILED', 'the database cannot be reached');
    return pause(this.#env.timers, RETRY_MS);
  }

  #fail(error: Error): void {
    if (this.#failure) return;
    this.#failure = error;
    this.#events?.failed(error);
  }
}

/** Whether the same statement may succeed a moment later. */
const isTransient = (error: unknown): boolean => isLost(error) || isConflict(error) || isReadOnly(error);

export function openFailure(thrown: unknown): Error {
  if (thrown instanceof OrchdError) return thrown;
  const { message, sqlMessage, code } = thrown as Error & { sqlMessage?: string; code?: string };
  const why = sqlMessage ?? code ?? message;
  const retriable = isTransient(thrown);
  const told = `the database cannot be opened: ${why}`;
  return new OrchdError('STORE_FAILED', told, { retriable }, { cause: thrown });
}
