/**
 * Writes ended jobs and charges to the history in batches, in the background.
 *
 * I1  The watermark never passes an ended job or a charge that is not in the index: it rises to #handedOverUpTo, and
 *     only when none of them is waiting any more.
 * I2  The charge of an attempt is made here where its job goes on, and in the background from the row of its job where
 *     the job has ended with it, which most do.
 */
import type { JobBundle, Seq } from '../../../core/ports/store.ts';
import type { Cancel, Timers } from '../../../kit/env/env.ts';
import { type Charge, chargeOf } from '../../../model/charge.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { AskRecord, AttemptRecord } from '../../../model/records.ts';
import { isFull } from '../../disk-failure.ts';
import type { Background } from '../background.ts';
import { chargeRow } from './charge-rows.ts';
import { historyRow, type LogPoint } from './history.ts';

/** With more ended jobs or charges than this waiting for the history, new work is refused. */
const MAX_WAITING = 200_000;
/** The jobs of one batch, and as many charges. */
const MAX_BATCH = 5000;
/** How long ended jobs and charges gather before a batch is written: each batch costs a disk sync. */
const GATHER_MS = 250;

/** An ended job that waits to be written. */
interface WaitingJob {
  readonly uid: string;
  readonly seq: Seq;
  readonly row: string;
}

/** How many jobs, and how many charges of jobs that went on. */
interface Counts {
  readonly jobs: number;
  readonly charges: number;
}

const NONE: Counts = { jobs: 0, charges: 0 };

const plus = (a: Counts, b: Counts): Counts => ({ jobs: a.jobs + b.jobs, charges: a.charges + b.charges });

/** A read that waits until as many jobs and charges of this process are in the index. */
interface ChargesReader {
  readonly counts: Counts;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export interface IndexerEvents {
  indexed(jobs: readonly { readonly uid: string; readonly seq: Seq }[]): void;
  /** A batch found no space on the disk, or was written. */
  diskFull(isFull: boolean): void;
  failed(error: Error): void;
}

type Phase =
  | { readonly is: 'idle' }
  | { readonly is: 'gathering'; readonly cancel: Cancel }
  | { readonly is: 'writing'; readonly done: Promise<void> }
  /** Closed, or failed permanently. */
  | { readonly is: 'stopped' };

const IDLE: Phase = { is: 'idle' };
const STOPPED: Phase = { is: 'stopped' };

export class Indexer {
  readonly #timers: Timers;
  readonly #background: Background;
  readonly #events: IndexerEvents;
  /** The durable end of the log, which the index notes with every write. */
  readonly #logEnd: () => LogPoint;
  #phase: Phase = IDLE;
  #waiting: WaitingJob[] = [];
  /** Rows of charges that wait to be written. */
  #charges: string[] = [];
  /** Closed attempts with a charge whose jobs may still be added in this turn of the event loop (I2). */
  readonly #charged = new Map<AttemptRecord, AskRecord>();
  /** The batch under way. */
  #beingWritten = NONE;
  #writtenSoFar = NONE;
  #readers: ChargesReader[] = [];
  /** Every job that ended at or before this change was passed to add(). */
  #handedOverUpTo: Seq;
  /** Every job that ended at or before this change is in the history. */
  #indexedUpTo: Seq;

  constructor(
    timers: Timers,
    background: Background,
    indexedUpTo: Seq,
    logEnd: () => LogPoint,
    events: IndexerEvents,
  ) {
    this.#logEnd = logEnd;
    this.#timers = timers;
    this.#background = background;
    this.#events = events;
    this.#handedOverUpTo = indexedUpTo;
    this.#indexedUpTo = indexedUpTo;
  }

  get indexedUpTo(): Seq {
    return this.#indexedUpTo;
  }

  get overloaded(): boolean {
    return this.#waiting.length > MAX_WAITING || this.#charges.length > MAX_WAITING;
  }

  add(ended: readonly JobBundle[], upTo: Seq): void {
    for (const bundle of ended) {
      const last = bundle.attempts.at(-1);
      const withCharges = last !== undefined && this.#charged.delete(last);
      this.#waiting.push({ uid: bundle.uid, seq: bundle.seq, row: historyRow(bundle, withCharges) });
    }
    this.#handedOverUpTo = upTo;
    this.#start();
  }

  /** Adds charges whose changes are durable. */
  addCharges(charges: readonly Charge[]): void {
    for (const charge of charges) this.#charges.push(chargeRow(charge));
    this.#start();
  }

  /** Adds the charge of a closed attempt whose change is durable. */
  addCharged(attempt: AttemptRecord, ask: AskRecord): void {
    this.#charged.set(attempt, ask);
    this.#start();
  }

  /** Resolves when all charges that were added so far are in the index. They are written at once. */
  chargesWritten(): Promise<void> {
    if (!this.#hasWaiting && this.#beingWritten === NONE) return Promise.resolve();
    if (this.#phase.is === 'stopped')
      return Promise.reject(new OrchdError('STORE_FAILED', 'the store is closed'));
    this.#makeCharges();
    const waiting = { jobs: this.#waiting.length, charges: this.#charges.length };
    const counts = plus(plus(this.#writtenSoFar, this.#beingWritten), waiting);
    return new Promise((resolve, reject) => {
      this.#readers.push({ counts, resolve, reject });
      if (this.#phase.is !== 'gathering') return;
      this.#phase.cancel();
      this.#write();
    });
  }

  /**
   * Raises the watermark where no ended job is waiting. Without it, a log in which no job ends would never raise the
   * watermark, and its old segments could not be deleted.
   */
  async noteComplete(): Promise<void> {
    const upTo = this.#handedOverUpTo;
    if (this.#phase.is !== 'idle' || upTo <= this.#indexedUpTo) return;
    await this.#background.index('', upTo, this.#logEnd());
    this.#indexedUpTo = Math.max(this.#indexedUpTo, upTo);
  }

  /** Jobs that still wait are not written: the next brain hands them over again. */
  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = STOPPED;
    if (phase.is === 'gathering') phase.cancel();
    if (phase.is === 'writing') await phase.done;
    this.#failReaders(new OrchdError('STORE_FAILED', 'the store is closed'));
  }

  /** Notes the durable end of the log, so that the next start misses it if it is lost. Called after close(). */
  noteLogEnd(): Promise<void> {
    return this.#background.index('', this.#indexedUpTo, this.#logEnd());
  }

  #start(): void {
    if (this.#phase.is !== 'idle' || !this.#hasWaiting) return;
    if (this.#readers.length > 0) return this.#write();
    const cancel = this.#timers.after(GATHER_MS, () => this.#write());
    this.#phase = { is: 'gathering', cancel };
  }

  get #hasWaiting(): boolean {
    return this.#waiting.length > 0 || this.#charges.length > 0 || this.#charged.size > 0;
  }

  #makeCharges(): void {
    for (const [attempt, ask] of this.#charged) {
      const charge = chargeOf(attempt.job, ask, attempt);
      if (charge) this.#charges.push(chargeRow(charge));
    }
    this.#charged.clear();
  }

  #write(): void {
    const done = this.#writeAll().then(
      () => this.#written(),
      (error: Error) => {
        this.#phase = STOPPED;
        this.#failReaders(error);
        this.#events.failed(error);
      },
    );
    this.#phase = { is: 'writing', done };
  }

  #written(): void {
    if (this.#phase.is === 'stopped') return;
    this.#phase = IDLE;
    this.#start();
  }

  async #writeAll(): Promise<void> {
    while (this.#hasWaiting && !this.#isStopped()) {
      this.#makeCharges();
      const batch = this.#waiting.slice(0, MAX_BATCH);
      const charges = this.#charges.slice(0, MAX_BATCH);
      this.#waiting = this.#waiting.slice(batch.length);
      this.#charges = this.#charges.slice(charges.length);
      this.#beingWritten = { jobs: batch.length, charges: charges.length };
      // I1: the watermark rises only with the last batch.
      const watermark = this.#hasWaiting ? this.#indexedUpTo : this.#handedOverUpTo;
      try {
        const rows = batch.map(({ row }) => row).join('');
        await this.#background.index(rows, watermark, this.#logEnd(), charges.join(''));
      } catch (error) {
        this.#beingWritten = NONE;
        if (!isFull(error)) throw error;
        // The disk is full: the jobs stay in the brain's memory and are tried again with the next batch.
        this.#waiting = [...batch, ...this.#waiting];
        this.#charges = [...charges, ...this.#charges];
        this.#failReaders(new OrchdError('STORE_FULL', undefined, {}, { cause: error }));
        if (!this.#isStopped()) this.#events.diskFull(true);
        return;
      }
      this.#writtenSoFar = plus(this.#writtenSoFar, this.#beingWritten);
      this.#beingWritten = NONE;
      this.#serveReaders();
      this.#events.diskFull(false);
      this.#indexedUpTo = watermark;
      if (batch.length > 0 && !this.#isStopped()) this.#events.indexed(batch);
    }
  }

  #serveReaders(): void {
    const { jobs, charges } = this.#writtenSoFar;
    const isServed = ({ counts }: ChargesReader): boolean => counts.jobs <= jobs && counts.charges <= charges;
    const served = this.#readers.filter(isServed);
    this.#readers = this.#readers.filter((reader) => !isServed(reader));
    for (const { resolve } of served) resolve();
  }

  /** A sum without the charges that cannot be written would be wrong: its reader gets the error. */
  #failReaders(error: Error): void {
    for (const { reject } of this.#readers.splice(0)) reject(error);
  }

  #isStopped(): boolean {
    return this.#phase.is === 'stopped';
  }
}
