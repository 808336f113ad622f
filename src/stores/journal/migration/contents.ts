/** A data folder as the source of a migration, or as a target that is read back. Its records are never changed; only lock files and SQLite's -shm may appear in it. */

import { pathToFileURL } from 'node:url';
import type { SessionKey } from '../../../core/ports/keys.ts';
import type { JobBundle } from '../../../core/ports/store.ts';
import type { Disk, Env } from '../../../kit/env/env.ts';
import type { BlobRef } from '../../../model/body.ts';
import { type Charge, chargesOf } from '../../../model/charge.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import {
  CHARGES_PER_PAGE,
  JOBS_PER_PAGE,
  KEYS_PER_PAGE,
  SESSIONS_PER_PAGE,
  type StoreContents,
  type StoreHead,
} from '../../migration/contents.ts';
import type { OtherRecord, Records } from '../../records.ts';
import { Blobs } from '../blobs.ts';
import { openFailure } from '../failures.ts';
import { readCharge } from '../history/charge-rows.ts';
import { RecoveredCharges } from '../history/recovered-charges.ts';
import { SqliteHistory } from '../history/sqlite.ts';
import { readSlots } from '../key-slots.ts';
import { type Paths, paths } from '../layout.ts';
import { refuseOtherIndex } from '../lost-end.ts';
import { readRecords } from '../recover.ts';
import { refuseUnfinished } from '../unfinished.ts';

export const placeName = (folder: string): string => `the journal ${folder}`;

interface Lock {
  release(): Promise<void>;
}

export class JournalContents implements StoreContents {
  readonly place: string;
  readonly head: StoreHead;
  readonly others: readonly OtherRecord[];
  readonly jobCount: number;
  readonly #records: Records;
  readonly #history: SqliteHistory;
  readonly #unindexed: readonly Charge[];
  readonly #lacksCharges: boolean;
  readonly #blobs: Blobs;
  readonly #keys: () => AsyncIterable<SessionKey | string>;
  readonly #lock: Lock | undefined;

  constructor(place: string, read: ReadJournal, { blobs, keys }: JournalFiles, lock: Lock | undefined) {
    this.place = place;
    this.head = read.head;
    this.#records = read.records;
    this.#history = read.history;
    this.#unindexed = read.unindexed;
    this.#lacksCharges = read.lacksCharges;
    this.#blobs = blobs;
    this.#keys = keys;
    this.#lock = lock;
    this.others = [...read.records.others.values()];
    this.jobCount = read.history.count() + read.records.jobs.size;
  }

  /** Opens a folder as a source. It is locked until close(), so no brain can start on it. */
  static async open(env: Env, folder: string): Promise<JournalContents> {
    const where = paths(folder);
    if (!(await env.disk.stat(where.log))) throw nothingIn(folder);
    const lock = await env.disk.lock(where.lock);
    if (!lock) {
      throw new OrchdError('STORE_LOCKED', `a running orchd holds ${folder}: stop it, then try again`);
    }
    try {
      await refuseUnfinished(env.disk, where);
      return await JournalContents.read(env, folder, lock);
    } catch (error) {
      await lock.release();
      throw openFailure(error);
    }
  }

  /** Reads a folder that the caller has locked already; a `lock` given here is released by close(). */
  static async read(env: Env, folder: string, lock?: Lock): Promise<JournalContents> {
    const where = paths(folder);
    const read = await readJournal(env.disk, where);
    const blobs = new Blobs(env, where.blobs, { diskFull: () => undefined, failed: () => undefined });
    const keys = (): AsyncIterable<SessionKey | string> => readSlots(env.disk, where.keys);
    return new JournalContents(placeName(folder), read, { blobs, keys }, lock);
  }

  async *jobs(): AsyncGenerator<readonly JobBundle[]> {
    for (let n = 0; ; ) {
      const page = this.#history.after(n, JOBS_PER_PAGE);
      const last = page.at(-1);
      if (!last) break;
      n = last.ask.n;
      // A job that was redriven is left out here: the records hold its current state.
      yield page.filter(({ uid }) => !this.#records.jobs.has(uid));
    }
    const current = [...this.#records.jobs.values()];
    for (let from = 0; from < current.length; from += JOBS_PER_PAGE)
      yield current.slice(from, from + JOBS_PER_PAGE);
  }

  /** The index may have some of the charges behind its watermark already. */
  async *charges(): AsyncGenerator<readonly Charge[]> {
    const unindexed = new Map(this.#unindexed.map((charge) => [charge.token, charge]));
    for (const page of this.#lacksCharges ? this.#chargesOfJobs() : this.#indexedCharges()) {
      for (const { token } of page) unindexed.delete(token);
      yield page;
    }
    const left = [...unindexed.values()];
    for (let from = 0; from < left.length; from += CHARGES_PER_PAGE)
      yield left.slice(from, from + CHARGES_PER_PAGE);
  }

  *#indexedCharges(): Generator<readonly Charge[]> {
    const all = { from: 0, to: Number.MAX_SAFE_INTEGER };
    for (let last: Charge | undefined; ; ) {
      const page = this.#history.charges(all, last, CHARGES_PER_PAGE).map(readCharge);
      if (page.length === 0) return;
      last = page.at(-1);
      yield page;
    }
  }

  /** For an index of an earlier layout. */
  *#chargesOfJobs(): Generator<readonly Charge[]> {
    for (let n = 0; ; ) {
      const page = this.#history.after(n, JOBS_PER_PAGE);
      const last = page.at(-1);
      if (!last) return;
      n = last.ask.n;
      yield page.flatMap(({ uid, ask, attempts }) => [...chargesOf(uid, ask, attempts)]);
    }
  }

  async *sessions(): AsyncGenerator<readonly SessionRecord[]> {
    let page: SessionRecord[] = [];
    for (const session of this.#history.sessions.all()) {
      if (page.push(session) < SESSIONS_PER_PAGE) continue;
      yield page;
      page = [];
    }
    if (page.length > 0) yield page;
  }

  async *keys(): AsyncGenerator<readonly SessionKey[]> {
    let page: SessionKey[] = [];
    for await (const slot of this.#keys()) {
      if (typeof slot === 'object') page.push(slot);
      if (page.length < KEYS_PER_PAGE) continue;
      yield page;
      page = [];
    }
    if (page.length > 0) yield page;
  }

  async readBody(ref: BlobRef): Promise<string> {
    return (await this.#blobs.read(ref)).toString();
  }

  /** The lock of the folder already keeps others from writing. */
  async hold(): Promise<StoreContents> {
    return this;
  }

  async assertHeld(): Promise<void> {}

  async close(): Promise<void> {
    this.#history.close();
    await this.#lock?.release();
  }
}

/** The files that are read beside the records. */
interface JournalFiles {
  readonly blobs: Blobs;
  readonly keys: () => AsyncIterable<SessionKey | string>;
}

interface ReadJournal {
  readonly head: StoreHead;
  readonly records: Records;
  readonly history: SqliteHistory;
  /** The charges that the index may lack. */
  readonly unindexed: readonly Charge[];
  readonly lacksCharges: boolean;
}

const nothingIn = (folder: string): OrchdError =>
  new OrchdError('NOT_FOUND', `${folder} holds no work of orchd`);

async function readJournal(disk: Disk, where: Paths): Promise<ReadJournal> {
  const charges = new RecoveredCharges();
  const recovered = await readRecords(disk, where, (into) => charges.watching(into));
  const { manifest, end, records } = recovered;
  const { brain } = records;
  if (!brain) throw nothingIn(where.folder);
  const history = await openHistory(disk, where);
  const opened = history.open();
  const { watermark, fresh, lacksCharges = false } = opened;
  if (fresh) {
    history.close();
    throw unindexed(where.folder);
  }
  try {
    await refuseOtherIndex(disk, where, recovered, opened);
  } catch (error) {
    history.close();
    throw error;
  }
  records.forgetEnded(watermark);
  const at = Math.max(manifest.at, end.at);
  const head = { seq: records.seq, at, epoch: Math.max(end.epoch, brain.epoch), brain };
  const missing = await charges.after(lacksCharges ? -1 : watermark, manifest.seq, disk, where);
  return { head, records, history, unindexed: missing, lacksCharges };
}

/**
 * Opens the index read-only. The URI options keep SQLite from creating files beside it, except for a `-wal` without its
 * `-shm`, which cannot be read without making one.
 */
async function openHistory(disk: Disk, { folder, history }: Paths): Promise<SqliteHistory> {
  if (!(await disk.stat(history))) throw unindexed(folder);
  const hasWal = ((await disk.stat(`${history}-wal`))?.size ?? 0) > 0;
  const hasShm = (await disk.stat(`${history}-shm`)) !== undefined;
  const options = hasWal ? (hasShm ? '?readonly_shm=1' : '') : '?immutable=1';
  return new SqliteHistory(`${pathToFileURL(history)}${options}`, 'read');
}

const unindexed = (folder: string): OrchdError =>
  new OrchdError(
    'STORE_CORRUPT',
    `the index of ended jobs in ${folder} is missing: start orchd on it once, which rebuilds the index, then stop it`,
  );
