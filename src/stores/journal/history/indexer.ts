/**
 * Takes ended jobs over into the history, some at a time and beside everything else.
 *
 * I1  The watermark never passes a job that was not put in: it rises to what the brain has handed over completely,
 *     and only with the last of what waits.
 */
import type { JobBundle, Seq } from '../../../core/ports/store.ts';
import type { Cancel, Timers } from '../../../kit/env/env.ts';
import { isFull } from '../../disk-failure.ts';
import type { Background } from '../background.ts';
import { historyRow } from './history.ts';

/** Ended jobs that may wait for the history before new work is refused. */
const MAX_WAITING = 200_000;
/** Jobs handed to the history at a time, and how long they may gather: each batch costs the disk a sync. */
const BATCH = 5000;
const PAUSE_MS = 250;

interface Waiting {
  readonly uid: string;
  readonly seq: Seq;
  readonly row: string;
}

export interface IndexerEvents {
  indexed(jobs: readonly { readonly uid: string; readonly seq: Seq }[]): void;
  failed(error: Error): void;
}

type Phase =
  | { readonly is: 'idle' }
  | { readonly is: 'gathering'; readonly cancel: Cancel }
  | { readonly is: 'writing'; readonly done: Promise<void> }
  /** Closed, or failed for good. */
  | { readonly is: 'stopped' };

const IDLE: Phase = { is: 'idle' };
const STOPPED: Phase = { is: 'stopped' };

export class Indexer {
  readonly #timers: Timers;
  readonly #background: Background;
  readonly #events: IndexerEvents;
  #phase: Phase = IDLE;
  #waiting: Waiting[] = [];
  /** Every job that had ended up to here was handed over; up to there the history has them. */
  #handedOverUpTo: Seq;
  #indexedUpTo: Seq;

  constructor(timers: Timers, background: Background, indexedUpTo: Seq, events: IndexerEvents) {
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
    return this.#waiting.length > MAX_WAITING;
  }

  add(ended: readonly JobBundle[], upTo: Seq): void {
    for (const bundle of ended) {
      this.#waiting.push({ uid: bundle.uid, seq: bundle.seq, row: historyRow(bundle) });
    }
    this.#handedOverUpTo = upTo;
    this.#start();
  }

  /** Where no ended job waits the history has them all: unsaid, nothing of the log could ever go. */
  async noteComplete(): Promise<void> {
    const upTo = this.#handedOverUpTo;
    if (this.#phase.is !== 'idle' || upTo <= this.#indexedUpTo) return;
    await this.#background.index('', upTo);
    this.#indexedUpTo = Math.max(this.#indexedUpTo, upTo);
  }

  /** What waits stays out of the history: the next brain hands it over again. */
  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = STOPPED;
    if (phase.is === 'gathering') phase.cancel();
    if (phase.is === 'writing') await phase.done;
  }

  #start(): void {
    if (this.#phase.is !== 'idle' || this.#waiting.length === 0) return;
    const cancel = this.#timers.after(PAUSE_MS, () => {
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
      const batch = this.#waiting.slice(0, BATCH);
      this.#waiting = this.#waiting.slice(batch.length);
      // Only when nothing is left over does the index hold everything that was handed over.
      const watermark = this.#waiting.length === 0 ? this.#handedOverUpTo : this.#indexedUpTo;
      try {
        await this.#background.index(batch.map(({ row }) => row).join(''), watermark);
      } catch (error) {
        if (!isFull(error)) throw error;
        // They stay in memory, which is where they are; the next batch tries again.
        this.#waiting = [...batch, ...this.#waiting];
        return;
      }
      this.#indexedUpTo = watermark;
      if (!this.#isStopped()) this.#events.indexed(batch);
    }
  }

  #isStopped(): boolean {
    return this.#phase.is === 'stopped';
  }
}
