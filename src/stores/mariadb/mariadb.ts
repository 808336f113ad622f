/**
 * The store of a cluster: the same records as rows, the same changes as a trail, one leader at a time.
 *
 * M1  A commit begins with the fence: epoch and sequence must be the ones this store has written last.
 * M2  A commit whose answer is lost is settled by the fence row: it has happened, or it is made again.
 * M3  A sequence is told durable only after its commit was answered, or found done.
 */

import type { Term } from '../../core/ports/leadership.ts';
import type {
  HistoryReads,
  JobBundle,
  PurgeResult,
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
import { OrchdError } from '../../model/errors.ts';
import { type BlobRef, BRAIN_ID, type Change } from '../../model/records.ts';
import { putBlob, readBlob } from './blobs.ts';
import { type Batch, commitBatch, lastOf } from './commit.ts';
import { planPurge, purge, TableHistory } from './history.ts';
import { Lines } from './lines.ts';
import { brainOf, type EpochRow, recoverJobs, recoverOthers, takeOver, takeUp } from './recover.ts';
import { dropUnnamedBodies, trimAudit } from './retention.ts';
import { type Connect, isConflict, isDiskFull, isLost, type Sql } from './sql.ts';
import { checkDurable, migrate } from './tables.ts';

export interface MariaDbOptions {
  readonly connect: Connect;
  /** Take a server that may lose what it has answered. */
  readonly unsafe?: boolean;
  /** How long rows of the trail are kept, and how much of them. */
  readonly auditMs?: number;
  readonly auditBytes?: number;
  /** The lead that an election has given; without one it is taken from whoever has it. */
  readonly term?: Term;
}

/** Changes of one commit, at most: it must not hold its locks for long. */
const MAX_BATCH = 2000;
const MAX_PENDING = 200_000;
const RETRY_MS = 100;
const COMMIT_TIMEOUT_MS = 15_000;
/** Rows of the trail that go at a time: they come in as fast. */
const MAX_TRIMMED = 100_000;

interface Unit {
  readonly changes: readonly Change[];
  readonly now: number;
}

export class MariaDbStore implements Store {
  readonly capabilities: StoreCapabilities = { secondOpener: 'epoch' };
  readonly history: HistoryReads;
  readonly #env: Env;
  readonly #options: MariaDbOptions;
  readonly #writes: Lines;
  readonly #reads: Lines;
  /** For what takes long and has transactions of its own. */
  readonly #chores: Lines;
  #events: StoreEvents | undefined;
  #epoch = 0;
  #seq = 0;
  #durable = 0;
  #pending: Unit[] = [];
  #pendingCount = 0;
  #unindexed: { uid: string; seq: Seq }[] = [];
  #flushing: Promise<void> | undefined;
  #full = false;
  /** Nodes take turns, and their clocks need not agree: times are those of the database. */
  #skewMs = 0;
  /** A commit was tried and not answered: it may have happened. */
  #doubtful = false;
  #failure: Error | undefined;
  #closed = false;
  /** How far bodies have been looked at that nothing may name. */
  #tidiedTo = 0;

  constructor(env: Env, options: MariaDbOptions) {
    this.#env = env;
    this.#options = options;
    this.#writes = new Lines(options.connect);
    this.#reads = new Lines(options.connect);
    this.#chores = new Lines(options.connect);
    this.history = new TableHistory(this.#reads);
  }

  get overloaded(): boolean {
    return this.#pendingCount > MAX_PENDING;
  }

  async open(events: StoreEvents, _now: number, into: Recovery): Promise<Recovered> {
    const { term, unsafe = false } = this.#options;
    this.#events = events;
    void term?.over.then(() => this.#depose());
    try {
      const sql = await this.#writes.line();
      await checkDurable(sql, unsafe);
      await migrate(sql);
      const row = term ? await takeUp(sql, term.epoch) : await takeOver(sql);
      if (!this.#env.clock.isMadeUp) this.#skewMs = await this.#skew(sql);
      await recoverJobs(sql, into);
      await recoverOthers(sql, into);
      const brain = brainOf(row);
      if (brain) into.record({ kind: 'brain', id: BRAIN_ID, after: brain });
      this.#epoch = row.epoch;
      this.#seq = row.last_seq;
      this.#durable = row.last_seq;
      // Jobs that are over are never handed over: the tables are their history.
      return { seq: row.last_seq, at: row.last_at, indexedUpTo: row.last_seq, skewMs: this.#skewMs };
    } catch (error) {
      await this.#hangUp();
      throw openFailure(error);
    }
  }

  holds(): boolean {
    return !this.#failure && (this.#options.term?.holds() ?? true);
  }

  append(changes: readonly Change[], now: number): Seq {
    if (this.#failure) throw new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure });
    this.#pending.push({ changes, now });
    this.#pendingCount += changes.length;
    this.#seq += changes.length;
    this.#flushing ??= this.#flushAll();
    return this.#seq;
  }

  async putBlob(text: string): Promise<BlobRef> {
    try {
      return await this.#reads.read((sql) => putBlob(sql, text));
    } catch (error) {
      throw isDiskFull(error) ? new OrchdError('STORE_FULL', undefined, {}, { cause: error }) : error;
    }
  }

  readBlob(ref: BlobRef): Promise<string> {
    return this.#reads.read((sql) => readBlob(sql, ref));
  }

  /** The tables have these jobs already: they may leave memory as soon as what was written last is durable. */
  index(ended: readonly JobBundle[]): void {
    if (ended.length === 0) return;
    for (const { uid, seq } of ended) this.#unindexed.push({ uid, seq });
    this.#env.timers.soon(() => this.#tellIndexed());
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgeResult> {
    return this.#chores.read((sql) => planPurge(sql, endedBefore, limit));
  }

  purge(endedBefore: number, limit: number): Promise<void> {
    return this.#chores.read(async (sql) => {
      await purge(sql, this.#epoch, endedBefore, limit);
      await this.#tidy(sql);
    });
  }

  /** What nothing names any more, and rows of the trail past their time; a piece of it each time. */
  async #tidy(sql: Sql): Promise<void> {
    this.#tidiedTo = await dropUnnamedBodies(sql, this.#epoch, this.#tidiedTo);
    const { auditMs = Number.POSITIVE_INFINITY, auditBytes = Number.POSITIVE_INFINITY } = this.#options;
    if (auditMs === Number.POSITIVE_INFINITY && auditBytes === Number.POSITIVE_INFINITY) return;
    const before = Math.max(0, this.#env.clock.now() + this.#skewMs - auditMs);
    await trimAudit(sql, this.#epoch, { before, bytes: auditBytes }, MAX_TRIMMED);
  }

  /** Rows are always up to date. */
  async checkpoint(): Promise<void> {}

  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      await this.#flushing;
    }
    await this.#hangUp();
  }

  async #skew(sql: Sql): Promise<number> {
    const [row] = await sql.query<{ now: number }>('SELECT UNIX_TIMESTAMP(NOW(6)) * 1000 AS now');
    return Math.round(Number(row?.now) - this.#env.clock.now());
  }

  async #hangUp(): Promise<void> {
    for (const lines of this.#allLines()) await lines.close();
  }

  #allLines(): readonly Lines[] {
    return [this.#writes, this.#reads, this.#chores];
  }

  /** Another one may lead. The server may not answer any more, so what is under way is not waited for. */
  #depose(): void {
    if (this.#closed) return;
    this.#fail(new OrchdError('FENCED'));
    for (const lines of this.#allLines()) lines.destroy();
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
      // What the same turn of the loop appends goes into the same commit.
      await new Promise<void>((resolve) => this.#env.timers.soon(resolve));
      while (this.#pending.length > 0) await this.#flush(this.#take());
      this.#flushing = undefined;
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  /** Whole units: what a turn decided becomes durable together. */
  #take(): Batch {
    const changes: Change[] = [];
    let now = 0;
    let taken = 0;
    for (const unit of this.#pending) {
      if (taken > 0 && changes.length + unit.changes.length > MAX_BATCH) break;
      for (const change of unit.changes) changes.push(change);
      now = unit.now;
      taken++;
    }
    this.#pending = this.#pending.slice(taken);
    return { changes, after: this.#durable, now };
  }

  async #flush(batch: Batch): Promise<void> {
    const since = this.#env.clock.monotonic();
    while (!(await this.#commit(batch))) {
      if (this.#failure) throw this.#failure;
      // It leads and can write nothing: another node may have better luck.
      const isUseless = this.#options.term && this.#env.clock.monotonic() - since > COMMIT_TIMEOUT_MS;
      if (isUseless && !this.#full)
        throw new OrchdError('FENCED', 'the database takes no commits from this node');
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

  /** Whether the batch is durable now; where it is not, it may be tried again. */
  async #commit(batch: Batch): Promise<boolean> {
    try {
      await this.#writes.once((sql) => this.#commitOn(sql, batch));
      return true;
    } catch (error) {
      if (!isLost(error) && !isConflict(error) && !isDiskFull(error)) throw error;
      if (isDiskFull(error)) this.#setFull(true);
      this.#doubtful = true;
      return false;
    }
  }

  /**
   * Where an answer was lost the fence row is asked first. The lost commit may still be under way then: it holds
   * the row, and ours finds the fence moved on by the very same batch.
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

export function openFailure(thrown: unknown): Error {
  if (thrown instanceof OrchdError) return thrown;
  const { message, sqlMessage, code } = thrown as Error & { sqlMessage?: string; code?: string };
  const why = sqlMessage ?? code ?? message;
  const retriable = isLost(thrown) || isConflict(thrown);
  const told = `the database cannot be opened: ${why}`;
  return new OrchdError('STORE_FAILED', told, { retriable }, { cause: thrown });
}
