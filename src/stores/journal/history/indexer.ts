/**
 * Writes ended jobs to the history in batches, in the background.
 *
 * I1  The watermark never passes an ended job that is not in the index: it rises to #handedOverUpTo, and only when no
 *     job is waiting any more.
 */
import type { JobBundle, Seq } from '../../../core/ports/store.ts';
import type { Cancel, Timers } from '../../../kit/env/env.ts';
import { isFull } from '../../disk-failure.ts';
import type { Background } from '../background.ts';
import { historyRow, type LogPoint } from './history.ts';

/** With more ended jobs than this waiting for the history, new work is refused. */
const MAX_WAITING_JOBS = 200_000;
const MAX_BATCH_JOBS = 5000;
/** How long ended jobs gather before a batch is written: each batch costs a disk sync. */
const GATHER_MS = 250;

/** An ended job that waits to be written. */
interface WaitingJob {
  readonly uid: string;
  readonly seq: Seq;
  readonly row: string;
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
    return this.#waiting.length > MAX_WAITING_JOBS;
  }

  add(ended: readonly JobBundle[], upTo: Seq): void {
    for (const bundle of ended) {
      this.#waiting.push({ uid: bundle.uid, seq: bundle.seq, row: historyRow(bundle) });
    }
    this.#handedOverUpTo = upTo;
    this.#start();
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
  }

  /** Notes the durable end of the log, so that the next start misses it if it is lost. Called after close(). */
  noteLogEnd(): Promise<void> {
    return this.#background.index('', this.#indexedUpTo, this.#logEnd());
  }

  #start(): void {
    if (this.#phase.is !== 'idle' || this.#waiting.length === 0) return;
    const cancel = this.#timers.after(GATHER_MS, () => {
      const done = this.#writeAll().then(
        () => this.#written(),
        (error: Error) => {
          this.#phase = STOPPED;
          this.#events.failed(error);
        },
      );
      this.#phase = { is: 'writing', done };
    });
    this.#phase = { is: 'gathering', cancel };
  }

  #written(): void {
    if (this.#phase.is === 'stopped') return;
    this.#phase = IDLE;
    this.#start();
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0 && this.#phase.is !== 'stopped') {
      const batch = this.#waiting.slice(0, MAX_BATCH_JOBS);
      this.#waiting = this.#waiting.slice(batch.length);
      // I1: the watermark rises only with the last batch.
      const watermark = this.#waiting.length === 0 ? this.#handedOverUpTo : this.#indexedUpTo;
      try {
        await this.#background.index(batch.map(({ row }) => row).join(''), watermark, this.#logEnd());
      } catch (error) {
        if (!isFull(error)) throw error;
        // The disk is full: the jobs stay in the brain's memory and are tried again with the next batch.
        this.#waiting = [...batch, ...this.#waiting];
        if (!this.#isStopped()) this.#events.diskFull(true);
        return;
      }
      this.#events.diskFull(false);
      this.#indexedUpTo = watermark;
      if (!this.#isStopped()) this.#events.indexed(batch);
    }
  }

  #isStopped(): boolean {
    return this.#phase.is === 'stopped';
  }
}
