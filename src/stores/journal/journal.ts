/**
 * The embedded store: a log with group commit, checkpoints, blobs and a history index, in one folder.
 *
 * J1  A sequence is reported durable only after the fdatasync that covers it (log/writer W1).
 * J2  What recovery read is synced before anyone acts on it.
 * J3  A segment or part is removed only when two checkpoint generations and the history no longer need it.
 */
import { dirname } from 'node:path';
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
} from '../../core/ports.ts';
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { BlobRef, Change } from '../../model/records.ts';
import { diskFailure, isFull } from '../disk-failure.ts';
import type { Background } from './background.ts';
import { BlobUse } from './blob-use.ts';
import { Blobs } from './blobs.ts';
import { type Manifest, NO_CHECKPOINT, writeManifest } from './checkpoint/manifest.ts';
import { openFailure } from './failures.ts';
import { historyRow } from './history/history.ts';
import { rebuildHistory } from './history/rebuild.ts';
import { type Paths, paths } from './layout.ts';
import { encodeChange } from './log/codec.ts';
import { LOG_LIMITS, type LogLimits, LogWriter } from './log/writer.ts';
import { recover, settleTail } from './recover.ts';
import { dropBlobFiles, dropOldFiles, type RetentionLimits } from './retention.ts';
import { refuseUnfinished } from './unfinished.ts';

export interface JournalOptions extends RetentionLimits {
  readonly folder: string;
  readonly checkpointIntervalMs: number;
  readonly historyMs: number;
  readonly background: (paths: Paths) => Background;
  readonly limits?: LogLimits;
  readonly onWarning?: (message: string) => void;
}

/** Below this much log a checkpoint is not worth its writes. */
const MIN_CHECKPOINT_LOG_BYTES = 2 ** 20;
/** Ended jobs that may wait for the history before new work is refused. */
const MAX_UNINDEXED = 200_000;
/** Jobs handed to the history at a time, and how long they may gather: each batch costs the disk a sync. */
const INDEX_BATCH = 5000;
const INDEX_PAUSE_MS = 250;

interface Unindexed {
  readonly uid: string;
  readonly seq: Seq;
  readonly row: string;
}

export class JournalStore implements Store {
  readonly capabilities: StoreCapabilities = { secondOpener: 'exclusive' };
  readonly #env: Env;
  readonly #options: JournalOptions;
  readonly #paths: Paths;
  readonly #background: Background;
  readonly #blobs: Blobs;
  readonly #blobUse = new BlobUse();
  #events: StoreEvents | undefined;
  #writer: LogWriter | undefined;
  #lock: { release(): Promise<void> } | undefined;
  #manifest: Manifest = NO_CHECKPOINT;
  #currentIsGood = true;
  #epoch = 0;
  #unindexed: Unindexed[] = [];
  #indexing: Promise<void> | undefined;
  #indexTimer: Cancel | undefined;
  /** Every job that ended up to here was offered to the history; up to there it has them. */
  #offeredUpTo = 0;
  #indexedUpTo = 0;
  #checkpointing: Promise<void> | undefined;
  #timer: Cancel | undefined;
  #unusedBlobFiles: ReadonlySet<number> = new Set();
  #closed = false;

  constructor(env: Env, options: JournalOptions) {
    this.#env = env;
    this.#options = options;
    this.#paths = paths(options.folder);
    this.#blobs = new Blobs(env, this.#paths.blobs, (error) => this.#events?.failed(error));
    this.#background = options.background(this.#paths);
  }

  get history(): HistoryReads {
    return this.#background.reads;
  }

  get overloaded(): boolean {
    return (this.#writer?.overloaded ?? false) || this.#unindexed.length > MAX_UNINDEXED;
  }

  async open(events: StoreEvents, now: number, into: Recovery): Promise<Recovered> {
    this.#events = events;
    try {
      return await this.#open(events, now, into);
    } catch (error) {
      await this.#release();
      throw openFailure(error);
    }
  }

  /** The folder is locked for as long as this process lives. */
  holds(): boolean {
    return true;
  }

  append(changes: readonly Change[], now: number): Seq {
    let text = '';
    let asks = 0;
    for (const change of changes) {
      text += encodeChange(change);
      if (change.kind === 'ask' && change.after?.class === 'batch') asks++;
      if (change.kind === 'brain' && change.after) this.#epoch = change.after.epoch;
    }
    const count = changes.length;
    const last = this.#log().append({ text, count, asks: asks === count ? asks : 0, at: now }, this.#epoch);
    let seq = last - count;
    for (const change of changes) this.#blobUse.changed(change, ++seq);
    return last;
  }

  putBlob(text: string): Promise<BlobRef> {
    return this.#blobs.put(text);
  }

  readBlob(ref: BlobRef): Promise<string> {
    return this.#blobs.read(ref);
  }

  index(ended: readonly JobBundle[], upTo: Seq): void {
    for (const bundle of ended) {
      this.#unindexed.push({ uid: bundle.uid, seq: bundle.seq, row: historyRow(bundle) });
    }
    this.#offeredUpTo = upTo;
    if (this.#unindexed.length > 0) this.#startIndexing();
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgeResult> {
    return this.#background.planPurge(endedBefore, limit);
  }

  async purge(endedBefore: number, limit: number): Promise<void> {
    await this.#background.purge(endedBefore, limit);
    this.#unusedBlobFiles = await dropBlobFiles(
      this.#blobs,
      this.#background,
      this.#blobUse,
      this.#unusedBlobFiles,
    );
  }

  checkpoint(): Promise<void> {
    this.#checkpointing ??= this.#checkpoint()
      .catch((error: Error) => {
        throw diskFailure(error, 'no checkpoint could be written');
      })
      .finally(() => {
        this.#checkpointing = undefined;
      });
    return this.#checkpointing;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.();
    this.#indexTimer?.();
    await this.#checkpointing?.catch(() => undefined);
    await this.#writer?.close();
    await this.#indexing;
    await this.#release();
  }

  async #open(events: StoreEvents, now: number, into: Recovery): Promise<Recovered> {
    const { disk } = this.#env;
    await this.#makeFolders();
    this.#lock = await disk.lock(this.#paths.lock);
    if (!this.#lock) throw new OrchdError('STORE_LOCKED', `another process holds ${this.#paths.folder}`);
    await refuseUnfinished(disk, this.#paths);
    const { manifest, end, fallback } = await recover(disk, this.#paths, this.#watched(into));
    this.#currentIsGood = fallback === undefined;
    if (fallback) this.#options.onWarning?.(`the newest checkpoint was not used: ${fallback}`);
    await settleTail(disk, this.#paths, end);
    this.#manifest = manifest;
    this.#epoch = end.epoch;
    await this.#blobs.open();
    const seq = end.nextSeq - 1;
    await this.#openHistory(now, seq);
    this.#blobUse.opened(this.#indexedUpTo);
    this.#writer = new LogWriter(
      this.#env,
      this.#paths,
      {
        durable: (seq) => events.durable(seq),
        space: (full) => events.space(full),
        failed: (error) => events.failed(error),
      },
      end,
      this.#options.limits ?? LOG_LIMITS,
    );
    await this.#writer.open();
    this.#scheduleCheckpoint();
    return { seq, at: Math.max(manifest.at, end.at), indexedUpTo: this.#indexedUpTo };
  }

  /** Everything that is handed on counts for the blob files too. */
  #watched(into: Recovery): Recovery {
    return {
      job: (bundle) => {
        this.#blobUse.recovered(bundle);
        into.job(bundle);
      },
      record: (record) => into.record(record),
      change: (change, seq) => {
        this.#blobUse.changed(change, seq);
        into.change(change, seq);
      },
    };
  }

  async #makeFolders(): Promise<void> {
    const { disk } = this.#env;
    const { folder, log, parts, blobs } = this.#paths;
    await disk.makeFolder(folder);
    for (const path of [log, parts, blobs]) await disk.makeFolder(path);
    await disk.syncFolder(folder);
    await disk.syncFolder(dirname(folder));
  }

  async #openHistory(now: number, lastSeq: Seq): Promise<void> {
    const { watermark, fresh } = await this.#background.open();
    this.#indexedUpTo = Math.min(watermark, lastSeq);
    // A new folder has nothing to index; saying so keeps the next opening from looking for it.
    if (fresh && lastSeq === 0) await this.#background.index('', 0);
    else if (fresh) {
      const keptSince = now - this.#options.historyMs;
      this.#indexedUpTo = await rebuildHistory(this.#env.disk, this.#paths, this.#background, keptSince);
    }
    this.#offeredUpTo = this.#indexedUpTo;
  }

  #startIndexing(): void {
    if (this.#indexTimer || this.#indexing || this.#closed) return;
    this.#indexTimer = this.#env.timers.after(INDEX_PAUSE_MS, () => {
      this.#indexTimer = undefined;
      this.#indexing = this.#indexAll().then(
        () => {
          this.#indexing = undefined;
          if (this.#unindexed.length > 0) this.#startIndexing();
        },
        (error: Error) => this.#events?.failed(error),
      );
    });
  }

  async #indexAll(): Promise<void> {
    while (this.#unindexed.length > 0 && !this.#closed) {
      const batch = this.#unindexed.slice(0, INDEX_BATCH);
      this.#unindexed = this.#unindexed.slice(batch.length);
      // Only when nothing is left over does the index hold everything that was offered.
      const watermark = this.#unindexed.length === 0 ? this.#offeredUpTo : this.#indexedUpTo;
      try {
        await this.#background.index(batch.map(({ row }) => row).join(''), watermark);
      } catch (error) {
        if (!isFull(error)) throw error;
        // They stay in memory, which is where they are; the next batch tries again.
        this.#unindexed = [...batch, ...this.#unindexed];
        return;
      }
      this.#indexedUpTo = watermark;
      this.#blobUse.indexed(batch);
      if (!this.#closed) this.#events?.indexed(batch);
    }
  }

  async #checkpoint(): Promise<void> {
    const upTo = await this.#log().roll();
    if (upTo === this.#manifest.seq) return;
    crashpoint('checkpoint:after-roll');
    await this.#noteIndexed();
    const order = { base: this.#manifest, upTo, indexedUpTo: this.#indexedUpTo, at: this.#env.clock.now() };
    const manifest = await this.#background.merge(order);
    crashpoint('checkpoint:after-merge');
    const previous = this.#manifest;
    await writeManifest(this.#env.disk, this.#paths, manifest, this.#currentIsGood);
    this.#currentIsGood = true;
    this.#manifest = manifest;
    crashpoint('checkpoint:after-manifest');
    await dropOldFiles(this.#env, this.#paths, [previous, manifest], this.#indexedUpTo, this.#options);
  }

  /** Where no ended job waits for the history it has them all: unsaid, nothing of the log could ever go. */
  async #noteIndexed(): Promise<void> {
    const upTo = this.#offeredUpTo;
    if (this.#unindexed.length > 0 || this.#indexing || upTo <= this.#indexedUpTo) return;
    await this.#background.index('', upTo);
    this.#indexedUpTo = Math.max(this.#indexedUpTo, upTo);
  }

  #scheduleCheckpoint(): void {
    this.#timer = this.#env.timers.after(this.#options.checkpointIntervalMs, () => {
      this.#scheduleCheckpoint();
      const last = this.#manifest.parts.reduce((sum, part) => sum + part.bytes, 0);
      if (this.#log().logBytes < Math.max(MIN_CHECKPOINT_LOG_BYTES, last / 2)) return;
      // A checkpoint that cannot be written costs nothing but a longer log; the log itself reports a bad disk.
      this.checkpoint().catch((error: Error) => this.#options.onWarning?.(`no checkpoint: ${error.message}`));
    });
  }

  #log(): LogWriter {
    if (!this.#writer) throw new OrchdError('STORE_FAILED', 'the store is not open');
    return this.#writer;
  }

  async #release(): Promise<void> {
    await this.#background.close();
    await this.#blobs.close();
    await this.#lock?.release();
    this.#lock = undefined;
  }
}
