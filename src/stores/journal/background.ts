/**
 * The work that must not block the event loop: merging checkpoints and writing the history. ThreadBackground runs it on
 * a thread; InlineBackground runs it in place, for that thread and for tests that need every disk call in order.
 */
import type { HistoryReads, PurgeResult } from '../../core/ports/store.ts';
import type { Disk } from '../../kit/env/env.ts';
import type { Manifest } from './checkpoint/manifest.ts';
import { type MergeOrder, mergeCheckpoint } from './checkpoint/merge.ts';
import type { HistoryIndex, HistoryOpened, LogPoint } from './history/history.ts';
import type { Paths } from './layout.ts';

export interface Background {
  open(): Promise<HistoryOpened>;
  merge(order: MergeOrder): Promise<Manifest>;
  /** `rows` are the joined rows of ended jobs: one string crosses to a thread much faster than objects. */
  index(rows: string, watermark: number, log?: LogPoint): Promise<void>;
  planPurge(endedBefore: number, limit: number): Promise<PurgeResult>;
  purge(endedBefore: number, limit: number): Promise<void>;
  /** True where an ended job in the history may reference this blob file. */
  usesBlobFile(file: number): Promise<boolean>;
  /** The blob files that ended jobs in the history refer to. */
  blobFiles(): Promise<number[]>;
  readonly reads: HistoryReads;
  close(): Promise<void>;
}

export const readsOf = (index: HistoryIndex): HistoryReads => ({
  get: async (uid) => index.get(uid),
  list: async (query) => index.list(query),
  count: async () => index.count(),
});

export class InlineBackground implements Background {
  readonly #disk: Disk;
  readonly #paths: Paths;
  readonly #history: HistoryIndex;
  readonly reads: HistoryReads;

  constructor(disk: Disk, paths: Paths, history: HistoryIndex) {
    this.#disk = disk;
    this.#paths = paths;
    this.#history = history;
    this.reads = readsOf(history);
  }

  async open(): Promise<HistoryOpened> {
    return this.#history.open();
  }

  merge(order: MergeOrder): Promise<Manifest> {
    return mergeCheckpoint(this.#disk, this.#paths, order);
  }

  async index(rows: string, watermark: number, log?: LogPoint): Promise<void> {
    this.#history.put(rows === '' ? [] : rows.trimEnd().split('\n'), watermark, log);
  }

  async planPurge(endedBefore: number, limit: number): Promise<PurgeResult> {
    return this.#history.planPurge(endedBefore, limit);
  }

  async purge(endedBefore: number, limit: number): Promise<void> {
    this.#history.purge(endedBefore, limit);
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
}
