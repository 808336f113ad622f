/**
 * The work that must not block the event loop: merging checkpoints and writing the history. ThreadBackground runs it on
 * a thread; InlineBackground runs it in place, for that thread and for tests that need every disk call in order.
 */
import type { LedgerKey, LedgerPlace, LedgerWindow } from '../../core/ports/ledger.ts';
import type { ArchiveReads, SessionName } from '../../core/ports/sessions.ts';
import type { HistoryReads, KeptJob, PurgePlan } from '../../core/ports/store.ts';
import { type Disk, diskErrorCode } from '../../kit/env/env.ts';
import type { Manifest } from './checkpoint/manifest.ts';
import { type MergeOrder, mergeCheckpoint } from './checkpoint/merge.ts';
import type { HistoryIndex, HistoryOpened, LogPoint } from './history/history.ts';
import { type RebuiltHistory, rebuildHistory } from './history/rebuild.ts';
import { archiveReadsOf } from './history/session-index.ts';
import type { Paths } from './layout.ts';

export interface Background {
  /** `keptSince`: jobs that ended earlier may have been purged; a repair leaves out those whose bodies are gone. */
  open(keptSince: number): Promise<HistoryOpened>;
  /**
   * Sets a damaged history aside and makes a new one from the log, while the brain goes on. Repeated after a failure, it
   * goes on with the new one.
   */
  repair(): Promise<RebuiltHistory>;
  merge(order: MergeOrder): Promise<Manifest>;
  /** `rows` and `charges` are the joined rows of ended jobs and of charges: one string crosses to a thread much faster than objects. */
  index(rows: string, watermark: number, log?: LogPoint, charges?: string): Promise<void>;
  /** The sums of charges as JSON texts, each of an array of at most SUMS_PER_TEXT sums: the reader parses one per turn. */
  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): Promise<string[]>;
  /** Charges in the order of settlement as joined rows. */
  charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Promise<string>;
  dropCharges(settledBefore: number, limit: number): Promise<number>;
  planPurge(endedBefore: number, limit: number): Promise<PurgePlan>;
  purge(endedBefore: number, limit: number, kept?: readonly KeptJob[]): Promise<void>;
  /** Writes joined rows of sessions, as sessionText() makes them, to the archive. */
  archive(rows: string): Promise<void>;
  dropSessions(sessions: readonly SessionName[]): Promise<void>;
  /** True where an ended job or an archived session in the history may reference this blob file. */
  usesBlobFile(file: number): Promise<boolean>;
  /** The blob files that ended jobs and archived sessions in the history refer to. */
  blobFiles(): Promise<number[]>;
  readonly reads: HistoryReads;
  readonly sessions: ArchiveReads;
  close(): Promise<void>;
}

export const readsOf = (index: HistoryIndex): HistoryReads => ({
  get: async (uid) => index.get(uid),
  list: async (query) => index.list(query),
  between: async (from, below, limit) => index.between(from, below, limit),
  count: async () => index.count(),
});

const SUMS_PER_TEXT = 500;

/** A running brain removes segments and writes to the last one while a repair reads them; this many readings in all. */
const MAX_READINGS = 3;

export class InlineBackground implements Background {
  readonly #disk: Disk;
  readonly #paths: Paths;
  readonly #history: HistoryIndex;
  readonly reads: HistoryReads;
  readonly sessions: ArchiveReads;
  /** How far the history reaches, so that a repair can bring the new one as far. */
  #holds: { readonly watermark: number; readonly log: LogPoint | undefined } = {
    watermark: 0,
    log: undefined,
  };
  #keptSince = 0;
  /** The damaged history is out of the way, and the new one is not complete yet. */
  #isSetAside = false;

  constructor(disk: Disk, paths: Paths, history: HistoryIndex) {
    this.#disk = disk;
    this.#paths = paths;
    this.#history = history;
    this.reads = readsOf(history);
    this.sessions = archiveReadsOf(history);
  }

  async open(keptSince: number): Promise<HistoryOpened> {
    this.#keptSince = keptSince;
    const opened = this.#history.open();
    this.#holds = { watermark: opened.watermark, log: opened.log };
    return opened;
  }

  async repair(): Promise<RebuiltHistory> {
    if (this.#isSetAside) this.#history.close();
    else this.#history.setAside();
    this.#isSetAside = true;
    this.#history.open();
    const { watermark, log: logEnd } = this.#holds;
    const put: Background['index'] = async (rows, upTo, log, charges) => this.#put(rows, upTo, log, charges);
    const order = { put, archive: this, keptSince: this.#keptSince, watermark, logEnd };
    for (let readings = 1; ; readings++) {
      try {
        const rebuilt = await rebuildHistory(this.#disk, this.#paths, order);
        this.#isSetAside = false;
        return rebuilt;
      } catch (error) {
        const isPassing = ['ENOENT', 'STORE_CORRUPT'].includes(diskErrorCode(error) ?? '');
        if (!isPassing || readings === MAX_READINGS) throw error;
      }
    }
  }

  merge(order: MergeOrder): Promise<Manifest> {
    return mergeCheckpoint(this.#disk, this.#paths, order);
  }

  async index(rows: string, watermark: number, log?: LogPoint, charges?: string): Promise<void> {
    this.#put(rows, watermark, log, charges);
    this.#holds = { watermark, log: log ?? this.#holds.log };
  }

  async sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): Promise<string[]> {
    const sums = this.#history.sums(window, by, limit);
    const texts: string[] = [];
    for (let from = 0; from < sums.length; from += SUMS_PER_TEXT)
      texts.push(JSON.stringify(sums.slice(from, from + SUMS_PER_TEXT)));
    return texts;
  }

  async charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Promise<string> {
    return this.#history.charges(window, after, limit).join('\n');
  }

  async dropCharges(settledBefore: number, limit: number): Promise<number> {
    return this.#history.dropCharges(settledBefore, limit);
  }

  async planPurge(endedBefore: number, limit: number): Promise<PurgePlan> {
    return this.#history.planPurge(endedBefore, limit);
  }

  async purge(endedBefore: number, limit: number, kept?: readonly KeptJob[]): Promise<void> {
    this.#history.purge(endedBefore, limit, kept);
    this.#keptSince = Math.max(this.#keptSince, endedBefore);
  }

  async archive(rows: string): Promise<void> {
    this.#history.sessions.put(linesIn(rows));
  }

  async dropSessions(sessions: readonly SessionName[]): Promise<void> {
    this.#history.sessions.drop(sessions);
  }

  async usesBlobFile(file: number): Promise<boolean> {
    return this.#history.usesBlobFile(file);
  }

  async blobFiles(): Promise<number[]> {
    return this.#history.blobFiles();
  }

  async close(): Promise<void> {
    this.#history.close();
  }

  #put(rows: string, watermark: number, log: LogPoint | undefined, charges = ''): void {
    this.#history.put(linesIn(rows), watermark, log, linesIn(charges));
  }
}

const linesIn = (rows: string): string[] => (rows === '' ? [] : rows.trimEnd().split('\n'));
