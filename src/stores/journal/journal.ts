/**
 * The embedded store: a log with group commit, checkpoints, blobs and a history index, in one folder. Why it is not a
 * database: docs/decisions/0001.
 *
 * J1  A sequence is reported durable only after the fdatasync that covers it (log/writer W1).
 * J2  The log that recovery read is synced before open() returns, so nothing acts on changes that a crash could still undo.
 * J3  A segment or part is removed only when neither of the two kept checkpoints nor the history needs it any more.
 * J4  A folder whose history has seen more than its log holds is refused, before anything in it is changed (lost-end.ts).
 */

import { dirname } from 'node:path';
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
import type { Env } from '../../kit/env/env.ts';
import { claimCopy, claimFolder, refuseHardLinks } from '../../kit/folder-identity.ts';
import type { LogFields } from '../../kit/logger.ts';
import type { BlobRef } from '../../model/body.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Change, logOwner } from '../../model/records.ts';
import type { Background } from './background.ts';
import { BlobUse, countingBlobs } from './blob-use.ts';
import { Blobs, isScattered } from './blobs.ts';
import { Checkpoints } from './checkpoint/checkpoints.ts';
import { DiskSpace } from './disk-space.ts';
import { openFailure } from './failures.ts';
import { journalArchive } from './history/archive.ts';
import { ChargeFeed } from './history/charge-feed.ts';
import { chargeRow } from './history/charge-rows.ts';
import { type HistoryOpened, type LogPoint, logPoint } from './history/history.ts';
import { Indexer } from './history/indexer.ts';
import { ledgerOf } from './history/ledger.ts';
import { MendedBackground } from './history/mended.ts';
import { rebuildHistory } from './history/rebuild.ts';
import { RecoveredCharges } from './history/recovered-charges.ts';
import { KeyFile } from './key-file.ts';
import { blobName, type Paths, paths } from './layout.ts';
import { encodeChange } from './log/codec.ts';
import { LOG_LIMITS, type LogLimits, LogWriter } from './log/writer.ts';
import { refuseOtherIndex } from './lost-end.ts';
import { type RecoveredFolder, recover, truncateAndSyncTail } from './recover.ts';
import { BlobRetention, type RetentionLimits } from './retention.ts';
import { refuseUnfinished } from './unfinished.ts';

/** At most this many missing blob files are named in a warning. */
const MAX_NAMED_FILES = 5;

export interface JournalOptions extends RetentionLimits {
  readonly folder: string;
  /** The folder is a copy, or a restored backup; a copy is refused without this. */
  readonly isCopy?: boolean | undefined;
  readonly checkpointIntervalMs: number;
  readonly historyMs: number;
  readonly background: (paths: Paths) => Background;
  readonly limits?: LogLimits;
  readonly onWarning?: (message: string, fields?: LogFields) => void;
}

interface Lock {
  release(): Promise<void>;
}

/** The parts that exist only while the store is open. */
interface OpenJournal {
  readonly lock: Lock;
  readonly events: StoreEvents;
  readonly writer: LogWriter;
  readonly indexer: Indexer;
  readonly checkpoints: Checkpoints;
  readonly blobUse: BlobUse;
  readonly blobFiles: BlobRetention;
  readonly charges: ChargeFeed;
  epoch: number;
  /** The owner in the brain's record; undefined until the first brain has written one. */
  owner: string | undefined;
}

type Phase =
  | { readonly is: 'new' }
  | { readonly is: 'open'; readonly journal: OpenJournal }
  | { readonly is: 'closed'; readonly done: Promise<void> };

export class JournalStore implements Store {
  readonly capabilities: StoreCapabilities = { secondOpener: 'exclusive' };
  readonly #env: Env;
  readonly #options: JournalOptions;
  readonly #paths: Paths;
  readonly #background: Background;
  readonly #blobs: Blobs;
  readonly keys: KeyFile;
  readonly #space: DiskSpace;
  /** Set when the opening begins: the disk may be full before it ends. */
  #events: StoreEvents | undefined;
  #phase: Phase = { is: 'new' };
  /** The change with which a copy has its own owner; undefined until it was made. */
  #claimAfter: Seq | undefined;

  constructor(env: Env, options: JournalOptions) {
    this.#env = env;
    this.#options = options;
    this.#paths = paths(options.folder);
    this.#space = new DiskSpace((isFull) => this.#events?.space(isFull));
    const failed = (error: Error): void => this.#opened?.events.failed(error);
    this.#blobs = new Blobs(env, this.#paths.blobs, { diskFull: this.#space.reportOf('blobs'), failed });
    this.keys = new KeyFile(env, this.#paths.keys, { failed, warn: (message) => this.#warn(message) });
    this.#background = new MendedBackground(options.background(this.#paths), (text) => this.#warn(text));
  }

  get history(): HistoryReads {
    return this.#background.reads;
  }

  get ledger(): LedgerReads {
    const isComplete = (): Promise<void> => this.#journal().indexer.chargesWritten();
    return ledgerOf(this.#background, isComplete, this.#env.timers);
  }

  get sessions(): SessionArchive {
    return journalArchive(this.#background, () => this.#journal());
  }

  get overloaded(): boolean {
    const journal = this.#opened;
    return journal !== undefined && (journal.writer.overloaded || journal.indexer.overloaded);
  }

  async open(events: StoreEvents, now: number, into: Recovery): Promise<Recovered> {
    let lock: Lock | undefined;
    this.#events = events;
    try {
      await this.#refuseHardLinks();
      await this.#makeFolders();
      lock = await this.#env.disk.lock(this.#paths.lock);
      if (!lock) throw new OrchdError('STORE_LOCKED', `another process holds ${this.#paths.folder}`);
      return await this.#open(lock, events, now, into);
    } catch (error) {
      await this.#release(lock);
      throw openFailure(error);
    }
  }

  /** Always true: the lock on the folder cannot be lost while this process lives. */
  holds(): boolean {
    return true;
  }

  append(changes: readonly Change[], now: number): Seq {
    const journal = this.#journal();
    let text = '';
    let batchAsks = 0;
    let isOpening = false;
    for (const change of changes) {
      text += encodeChange(change);
      if (change.kind === 'ask' && change.after?.spec.priority === 'batch') batchAsks++;
      if (change.kind === 'brain' && change.after) {
        journal.epoch = change.after.epoch;
        journal.owner = logOwner(change.after);
        isOpening = true;
      }
    }
    const count = changes.length;
    const unit = { text, count, batchAsks: batchAsks === count ? batchAsks : 0, at: now };
    const last = journal.writer.append(unit, journal.epoch);
    let seq = last - count;
    for (const change of changes) {
      journal.blobUse.changed(change, ++seq);
      journal.charges.appended(change, seq);
    }
    if (isOpening && this.#options.isCopy) this.#claimAfter ??= last;
    return last;
  }

  /** A copy is a folder of its own once its own owner is durable; a crash before that leaves a copy that is refused. */
  #claim(durableSeq: Seq): void {
    if (this.#claimAfter === undefined || durableSeq < this.#claimAfter) return;
    this.#claimAfter = Number.POSITIVE_INFINITY;
    claimCopy(this.#env, this.#paths.folder).catch((error: Error) =>
      this.#warn(`the folder still counts as a copy: ${error.message}`),
    );
  }

  putBlob(text: string, ties?: BlobTies): Promise<BlobRef> {
    return this.#blobs.put(text, ties?.needs);
  }

  readBlob(ref: BlobRef): Promise<Buffer> {
    return this.#blobs.read(ref);
  }

  readonly isScattered = isScattered;

  /** Ignored once the store is closing: the next opening hands these jobs over again. */
  index(ended: readonly JobBundle[], upTo: Seq): void {
    this.#opened?.indexer.add(ended, upTo);
  }

  planPurge(endedBefore: number, limit: number): Promise<PurgePlan> {
    return this.#background.planPurge(endedBefore, limit);
  }

  async purge(endedBefore: number, limit: number, now: number, kept?: readonly KeptJob[]): Promise<void> {
    const { blobFiles, checkpoints } = this.#journal();
    checkpoints.auditKeptSince = now - this.#options.auditMs;
    await this.#background.purge(endedBefore, limit, kept);
    await blobFiles.sweep();
  }

  dropCharges(settledBefore: number, limit: number): Promise<number> {
    return this.#background.dropCharges(settledBefore, limit);
  }

  async checkpoint(): Promise<void> {
    await this.#journal().checkpoints.make();
  }

  close(): Promise<void> {
    if (this.#phase.is === 'closed') return this.#phase.done;
    const done = this.#close(this.#opened);
    this.#phase = { is: 'closed', done };
    return done;
  }

  async #open(lock: Lock, events: StoreEvents, now: number, into: Recovery): Promise<Recovered> {
    const { disk, timers } = this.#env;
    await refuseUnfinished(disk, this.#paths);
    const blobUse = new BlobUse();
    const recoveredCharges = new RecoveredCharges();
    const watched = recoveredCharges.watching(countingBlobs(into, blobUse));
    const recovered = await recover(disk, this.#paths, watched);
    const { manifest, end, fallback, owner } = recovered;
    if (fallback) this.#warn(`the newest checkpoint was not used: ${fallback}`);
    const at = end.at || manifest.at;
    // A wall clock that is ahead makes jobs look old that nobody has purged.
    const keptSince = Math.min(now, at) - this.#options.historyMs;
    const history = await this.#background.open(keptSince);
    await refuseOtherIndex(disk, this.#paths, recovered, history);
    // Before the first change to the folder, and after everything for which it is refused and left as it is.
    if (!this.#options.isCopy) await claimFolder(this.#env, this.#paths.folder);
    await truncateAndSyncTail(disk, this.#paths, end);
    const indexedUpTo = await this.#fillHistory(history, recovered, keptSince);
    blobUse.opened(indexedUpTo);
    const missingBlobFiles = await this.#openBlobs(blobUse);
    await this.keys.open();
    const limits = this.#options.limits ?? LOG_LIMITS;
    const logEvents = {
      durable: (seq: number) => {
        this.#claim(seq);
        journal.charges.durable(seq);
        events.durable(seq);
      },
      diskFull: this.#space.reportOf('log'),
      failed: (error: Error) => events.failed(error),
    };
    const parts = { env: this.#env, paths: this.#paths, events: logEvents, end, limits };
    const writer = await LogWriter.open(parts);
    const logEnd = (): LogPoint => logPoint(writer.durableEnd, journal.owner);
    const indexer = new Indexer(timers, this.#background, indexedUpTo, logEnd, {
      indexed: (jobs) => {
        blobUse.indexed(jobs);
        events.indexed(jobs);
      },
      diskFull: this.#space.reportOf('history'),
      failed: (error) => events.failed(error),
    });
    const base = { manifest, isNewest: fallback === undefined };
    const checkpoints = new Checkpoints(this.#checkpointParts(writer, indexer), base);
    const blobFiles = new BlobRetention(this.#blobs, this.#background, blobUse);
    const { epoch } = end;
    const journal: OpenJournal = {
      lock,
      events,
      writer,
      indexer,
      checkpoints,
      blobUse,
      blobFiles,
      charges: new ChargeFeed(events.ask, indexer),
      epoch,
      owner,
    };
    const chargedUpTo = history.lacksCharges ? -1 : indexedUpTo;
    const charges = await recoveredCharges.after(chargedUpTo, manifest.seq, disk, this.#paths);
    // A later start does not find charges behind the watermark: they are written before this one goes on.
    if (history.lacksCharges)
      await this.#background.index('', indexedUpTo, undefined, charges.map(chargeRow).join(''));
    else indexer.addCharges(charges);
    this.#phase = { is: 'open', journal };
    return { seq: end.nextSeq - 1, at, indexedUpTo, missingBlobFiles };
  }

  #checkpointParts(writer: LogWriter, indexer: Indexer) {
    return {
      env: this.#env,
      paths: this.#paths,
      background: this.#background,
      writer,
      indexer,
      auditBytes: this.#options.auditBytes,
      intervalMs: this.#options.checkpointIntervalMs,
      onWarning: this.#options.onWarning,
    };
  }

  /** The marker tells for a folder of its own; one that is said to be a copy may have the files of its original. */
  #refuseHardLinks(): Promise<void> {
    const { folder, log, parts, blobs } = this.#paths;
    const written = this.#options.isCopy ? [folder, log, parts, blobs] : [];
    return refuseHardLinks(this.#env.disk, folder, written);
  }

  async #makeFolders(): Promise<void> {
    const { disk } = this.#env;
    const { folder, log, parts, blobs } = this.#paths;
    await disk.makeFolder(folder);
    for (const path of [log, parts, blobs]) await disk.makeFolder(path);
    await disk.syncFolder(folder);
    await disk.syncFolder(dirname(folder));
  }

  /** Returns the change up to which the history holds all ended jobs; makes a new or too old history complete first. */
  async #fillHistory(history: HistoryOpened, recovered: RecoveredFolder, keptSince: number): Promise<Seq> {
    const { watermark, fresh } = history;
    const { manifest, end, owner } = recovered;
    // The checkpoint has left out the ended jobs up to `indexedUpTo`, because the history held them.
    const isTooOld = !fresh && watermark < (manifest.indexedUpTo ?? 0);
    if (!fresh && !isTooOld) return watermark;
    if (end.nextSeq === 1) {
      // A new folder has nothing to index. Writing the watermark keeps the next opening from rebuilding the index.
      await this.#background.index('', 0);
      return 0;
    }
    const { disk } = this.#env;
    const logEnd = logPoint({ seq: end.nextSeq - 1, chain: end.chain ?? manifest.chain }, owner);
    const put = this.#background.index.bind(this.#background);
    const order = { put, archive: this.#background, keptSince, watermark: undefined, logEnd };
    const rebuilt = await rebuildHistory(disk, this.#paths, order);
    if (isTooOld || rebuilt.from > 1) {
      const why = isTooOld ? `was older than the checkpoint (change ${watermark})` : 'was missing';
      this.#warn(
        `the index of ended jobs ${why}; it was rebuilt from the log, which begins with change ${rebuilt.from}`,
      );
    }
    return rebuilt.upTo;
  }

  /** Returns the names of the blob files that jobs refer to and that are missing. */
  async #openBlobs(blobUse: BlobUse): Promise<string[]> {
    const used = [...blobUse.files(), ...(await this.#background.blobFiles())];
    const missing = (await this.#blobs.open(used)).map(blobName);
    if (missing.length > 0) {
      const names = missing.slice(0, MAX_NAMED_FILES).join(', ');
      this.#warn(
        `blob files are missing (${names}): jobs whose body was in one of them fail, and results in them are lost`,
        { count: missing.length, event: { type: 'blob-files-missing' } },
      );
    }
    return missing;
  }

  #warn(message: string, fields?: LogFields): void {
    this.#options.onWarning?.(message, fields);
  }

  get #opened(): OpenJournal | undefined {
    return this.#phase.is === 'open' ? this.#phase.journal : undefined;
  }

  #journal(): OpenJournal {
    const journal = this.#opened;
    if (!journal) throw new OrchdError('STORE_FAILED', 'the store is not open');
    return journal;
  }

  async #close(journal: OpenJournal | undefined): Promise<void> {
    // A checkpoint may wait for a segment that a full disk has no room for: the writer gives up on it first.
    journal?.writer.stopRolling();
    await Promise.all([journal?.indexer.close(), journal?.checkpoints.close()]);
    await journal?.writer.close();
    // Best effort: without this note, a start cannot tell that the end of the log was lost after an orderly stop.
    await journal?.indexer.noteLogEnd().catch(() => undefined);
    await this.#release(journal?.lock);
  }

  async #release(lock: Lock | undefined): Promise<void> {
    for (const part of [this.#background, this.#blobs, this.keys]) await part.close();
    await lock?.release();
  }
}
