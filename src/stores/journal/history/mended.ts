/**
 * Repairs the history as soon as a call meets damage in it. Reads and writes of the history wait for the repair and are
 * then made again; everything else of the brain goes on.
 *
 * M1  While the history is damaged or not complete again, no call reaches it: a job that is missing in it would count as
 *     unknown, and a blob file that only missing jobs refer to would count as unused.
 */
import type { LedgerKey, LedgerPlace, LedgerWindow } from '../../../core/ports/ledger.ts';
import type { ArchiveReads, SessionName } from '../../../core/ports/sessions.ts';
import type { HistoryReads, KeptJob, PurgePlan } from '../../../core/ports/store.ts';
import { diskFailure } from '../../disk-failure.ts';
import type { Background } from '../background.ts';
import type { Manifest } from '../checkpoint/manifest.ts';
import type { MergeOrder } from '../checkpoint/merge.ts';
import { type HistoryOpened, isHistoryDamaged, type LogPoint } from './history.ts';
import type { RebuiltHistory } from './rebuild.ts';

export class MendedBackground implements Background {
  readonly #inner: Background;
  readonly #onWarning: (message: string) => void;
  readonly reads: HistoryReads;
  readonly sessions: ArchiveReads;
  /** Stays set where a repair has failed, for lack of space for example: the next call tries again. */
  #isDamaged = false;
  #repairing: Promise<RebuiltHistory> | undefined;
  #repairs = 0;

  constructor(inner: Background, onWarning: (message: string) => void) {
    this.#inner = inner;
    this.#onWarning = onWarning;
    const { reads, sessions } = inner;
    this.reads = {
      get: (uid) => this.#read(() => reads.get(uid)),
      list: (query) => this.#read(() => reads.list(query)),
      between: (from, below, limit) => this.#read(() => reads.between(from, below, limit)),
      count: () => this.#read(() => reads.count()),
    };
    this.sessions = {
      get: (tenant, id) => this.#read(() => sessions.get(tenant, id)),
      list: (query) => this.#read(() => sessions.list(query)),
      oldest: (usedBefore, limit) => this.#read(() => sessions.oldest(usedBefore, limit)),
      isEmpty: () => this.#read(() => sessions.isEmpty()),
    };
  }

  open(keptSince: number): Promise<HistoryOpened> {
    return this.#inner.open(keptSince);
  }

  repair(): Promise<RebuiltHistory> {
    this.#isDamaged = true;
    this.#repairing ??= this.#repair().finally(() => {
      this.#repairing = undefined;
    });
    return this.#repairing;
  }

  merge(order: MergeOrder): Promise<Manifest> {
    return this.#inner.merge(order);
  }

  index(rows: string, watermark: number, log?: LogPoint, charges?: string): Promise<void> {
    return this.#mended(() => this.#inner.index(rows, watermark, log, charges));
  }

  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): Promise<string[]> {
    return this.#read(() => this.#inner.sums(window, by, limit));
  }

  charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Promise<string> {
    return this.#read(() => this.#inner.charges(window, after, limit));
  }

  dropCharges(settledBefore: number, limit: number): Promise<number> {
    return this.#mended(() => this.#inner.dropCharges(settledBefore, limit));
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgePlan> {
    return this.#mended(() => this.#inner.planPurge(endedBefore, limit));
  }

  purge(endedBefore: number, limit: number, kept?: readonly KeptJob[]): Promise<void> {
    return this.#mended(() => this.#inner.purge(endedBefore, limit, kept));
  }

  archive(rows: string): Promise<void> {
    return this.#mended(() => this.#inner.archive(rows));
  }

  dropSessions(sessions: readonly SessionName[]): Promise<void> {
    return this.#mended(() => this.#inner.dropSessions(sessions));
  }

  usesBlobFile(file: number): Promise<boolean> {
    return this.#mended(() => this.#inner.usesBlobFile(file));
  }

  blobFiles(): Promise<number[]> {
    return this.#mended(() => this.#inner.blobFiles());
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  /** The caller of a read learns whether a repair that failed is worth another try. */
  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await this.#mended(read);
    } catch (error) {
      throw this.#isDamaged ? diskFailure(error, 'the index of ended jobs cannot be repaired') : error;
    }
  }

  async #mended<T>(call: () => Promise<T>): Promise<T> {
    if (this.#isDamaged) await this.repair();
    const before = this.#repairs;
    try {
      return await call();
    } catch (error) {
      // A call that was under way when a repair closed the damaged history may have failed in any way.
      const isOvertaken = this.#isDamaged || this.#repairs > before;
      if (!isOvertaken && !isHistoryDamaged(error)) throw error;
      if (this.#repairs === before) await this.repair();
      return await call();
    }
  }

  async #repair(): Promise<RebuiltHistory> {
    const rebuilt = await this.#inner.repair();
    this.#isDamaged = false;
    this.#repairs++;
    this.#onWarning(
      'the index of ended jobs was damaged: it was set aside as history.sqlite.damaged and made again from the log, ' +
        `which begins with change ${rebuilt.from}`,
    );
    return rebuilt;
  }
}
