/**
 * A data folder as the target of a migration. Ended jobs are written to the history index, all other jobs to a
 * checkpoint, and the records that belong to no job to the first frames of the log after it.
 */

import { dirname, join } from 'node:path';
import type { SessionKey } from '../../../core/ports/keys.ts';
import type { Env } from '../../../kit/env/env.ts';
import type { BlobRef, Body } from '../../../model/body.ts';
import type { Charge } from '../../../model/charge.ts';
import { OrchdError } from '../../../model/errors.ts';
import { BRAIN_ID, type Change } from '../../../model/records.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import type {
  LoadedJob,
  MigrationTarget,
  StoreContents,
  StoreHead,
  TargetState,
} from '../../migration/contents.ts';
import { withBodies } from '../../migration/load-bodies.ts';
import { invalidated, type MigrationMark } from '../../migration/mark.ts';
import { isEnded, type OtherRecord } from '../../records.ts';
import { sessionText } from '../../session-text.ts';
import { Blobs } from '../blobs.ts';
import { bundleLine } from '../checkpoint/line.ts';
import { writeManifest } from '../checkpoint/manifest.ts';
import { PartWriter } from '../checkpoint/merge.ts';
import { openFailure } from '../failures.ts';
import { chargeRow } from '../history/charge-rows.ts';
import { historyRow } from '../history/history.ts';
import { SqliteHistory } from '../history/sqlite.ts';
import { KeyFile } from '../key-file.ts';
import { FORMAT, type Paths, paths, segmentName } from '../layout.ts';
import { encodeChange } from '../log/codec.ts';
import { encodeFrame } from '../log/frame.ts';
import { readWhole } from '../log/segments.ts';
import { isUnfinished } from '../unfinished.ts';
import { JournalContents, placeName } from './contents.ts';

const CHANGES_PER_FRAME = 1000;

export class JournalTarget implements MigrationTarget {
  readonly place: string;
  readonly #env: Env;
  readonly #paths: Paths;
  readonly #lock: { release(): Promise<void> };
  readonly #blobs: Blobs;
  readonly #keys: KeyFile;
  readonly #history: SqliteHistory;
  #parts: PartWriter | undefined;
  #failure: Error | undefined;
  #mark: MigrationMark | undefined;
  #head: StoreHead | undefined;

  constructor(env: Env, folder: string, lock: { release(): Promise<void> }) {
    this.#env = env;
    this.place = placeName(folder);
    this.#paths = paths(folder);
    this.#lock = lock;
    this.#blobs = new Blobs(env, this.#paths.blobs, {
      // A full disk fails the move with the error of put().
      diskFull: () => undefined,
      failed: (error) => {
        this.#failure = error;
      },
    });
    this.#keys = new KeyFile(env, this.#paths.keys, {
      failed: (error) => {
        this.#failure = error;
      },
      warn: () => undefined,
    });
    this.#history = new SqliteHistory(this.#paths.history, 'write');
  }

  static async open(env: Env, folder: string): Promise<JournalTarget> {
    try {
      await env.disk.makeFolder(folder);
      const lock = await env.disk.lock(paths(folder).lock);
      if (lock) return new JournalTarget(env, folder, lock);
    } catch (error) {
      throw openFailure(error);
    }
    throw new OrchdError('STORE_LOCKED', `a running orchd holds ${folder}: name another folder`);
  }

  async inspect(): Promise<TargetState> {
    const { disk } = this.#env;
    const { moving, manifest, previousManifest, history, log, blobs, keys } = this.#paths;
    if (await isUnfinished(disk, this.#paths)) {
      return { is: 'unfinished', mark: readMark(await readWhole(disk, moving)) };
    }
    for (const path of [manifest, previousManifest, history, keys]) {
      if (await disk.stat(path)) return { is: 'work' };
    }
    for (const path of [log, blobs]) if ((await disk.list(path)).length > 0) return { is: 'work' };
    return { is: 'empty' };
  }

  async begin(mark: MigrationMark, head: StoreHead, keep: boolean): Promise<void> {
    const { log, parts, blobs, manifest, previousManifest, history } = this.#paths;
    const { disk } = this.#env;
    if (!keep) await this.#writeMark(invalidated(mark));
    for (const folder of [log, parts, blobs]) await disk.makeFolder(folder);
    for (const path of [manifest, previousManifest]) await disk.remove(path);
    for (const folder of keep ? [log, parts] : [log, parts, blobs]) await this.#clear(folder);
    if (!keep) for (const suffix of ['', '-wal', '-shm']) await disk.remove(`${history}${suffix}`);
    await disk.syncFolder(this.#paths.folder);
    await this.#writeMark(mark);
    this.#mark = mark;
    this.#head = head;
    await this.#blobs.open();
    await disk.remove(this.#paths.keys);
    await this.#keys.open();
    this.#history.open();
    this.#parts = new PartWriter(disk, parts, head.seq);
  }

  async has(uids: readonly string[]): Promise<ReadonlySet<string>> {
    return new Set(uids.filter((uid) => this.#history.get(uid)));
  }

  async put(jobs: readonly LoadedJob[]): Promise<void> {
    const store = async (text: string | undefined): Promise<Body | undefined> =>
      text === undefined ? undefined : this.#blobs.put(text);
    const bundles = await Promise.all(
      jobs.map(async ({ bundle, payload, kept }) =>
        withBodies(bundle, ...(await Promise.all([store(payload), store(kept)]))),
      ),
    );
    if (this.#failure) throw this.#failure;
    const parts = this.#parts as PartWriter;
    for (const bundle of bundles) if (!isEnded(bundle)) parts.add(bundleLine(bundle));
    if (parts.needsDrain) await parts.drain();
    // The watermark stays 0 until seal(): nothing counts as indexed before all jobs are written.
    this.#history.put(
      bundles.filter(isEnded).map((bundle) => historyRow(bundle).trimEnd()),
      0,
    );
  }

  async putCharges(charges: readonly Charge[]): Promise<void> {
    this.#history.put([], 0, undefined, charges.map(chargeRow));
  }

  async putSessions(sessions: readonly SessionRecord[]): Promise<void> {
    this.#history.sessions.put(sessions.map(sessionText));
  }

  async putBody(text: string): Promise<BlobRef> {
    const ref = await this.#blobs.put(text);
    if (this.#failure) throw this.#failure;
    return ref;
  }

  async putKeys(keys: readonly SessionKey[]): Promise<void> {
    await Promise.all(keys.map((key) => this.#keys.put(key)));
  }

  async seal(others: readonly OtherRecord[]): Promise<void> {
    const { disk } = this.#env;
    const { seq, at, brain } = this.#head as StoreHead;
    const parts = await (this.#parts as PartWriter).finish();
    await disk.syncFolder(this.#paths.parts);
    this.#history.put([], seq);
    this.#history.close();
    await this.#blobs.close();
    await this.#keys.close();
    const last: Change = { kind: 'brain', id: BRAIN_ID, after: brain, cause: 'moved' };
    await this.#writeLog([...others.map((record): Change => ({ ...record, cause: 'moved' })), last]);
    await writeManifest(disk, this.#paths, { format: FORMAT, seq, chain: 0, at, parts });
  }

  contents(): Promise<StoreContents> {
    return JournalContents.read(this.#env, this.#paths.folder);
  }

  async finish(): Promise<void> {
    const { disk } = this.#env;
    const { folder, moving } = this.#paths;
    await disk.syncFolder(folder);
    await disk.syncFolder(dirname(folder));
    await disk.remove(moving);
    await disk.syncFolder(folder);
  }

  async invalidate(): Promise<void> {
    await this.#writeMark(invalidated(this.#mark as MigrationMark));
  }

  async close(): Promise<void> {
    await this.#parts?.close();
    await this.#blobs.close();
    await this.#keys.close();
    this.#history.close();
    await this.#lock.release();
  }

  async #clear(folder: string): Promise<void> {
    const { disk } = this.#env;
    for (const name of await disk.list(folder)) await disk.remove(join(folder, name));
    await disk.syncFolder(folder);
  }

  async #writeLog(changes: readonly Change[]): Promise<void> {
    const { disk } = this.#env;
    const { seq, at, epoch } = this.#head as StoreHead;
    const file = await disk.open(join(this.#paths.log, segmentName(seq + 1)), 'create');
    try {
      let position = 0;
      let chain = 0;
      for (let from = 0; from < changes.length; from += CHANGES_PER_FRAME) {
        const batch = changes.slice(from, from + CHANGES_PER_FRAME);
        const text = batch.map(encodeChange).join('');
        const header = { firstSeq: seq + 1 + from, count: batch.length, epoch, at, chain };
        const { frame, payloadCrc } = encodeFrame({ ...header, text });
        await file.write(position, frame);
        position += frame.length;
        chain = payloadCrc;
      }
      await file.datasync();
    } finally {
      await file.close();
    }
    await disk.syncFolder(this.#paths.log);
  }

  /** Replaces the mark by a rename, since neither a brain nor a migration could go on with half a mark. */
  async #writeMark(mark: MigrationMark): Promise<void> {
    const { disk } = this.#env;
    const { folder, moving, temporaryMoving } = this.#paths;
    const file = await disk.open(temporaryMoving, 'create');
    try {
      await file.write(0, Buffer.from(`${JSON.stringify({ moving: mark })}\n`));
      await file.datasync();
    } finally {
      await file.close();
    }
    await disk.rename(temporaryMoving, moving);
    await disk.syncFolder(folder);
  }
}

function readMark(bytes: Buffer): MigrationMark {
  try {
    return (JSON.parse(bytes.toString('utf8')) as { moving: MigrationMark }).moving;
  } catch (error) {
    const message =
      'the mark of the move (moving.json) is damaged: remove the folder, then run the move again';
    throw new OrchdError('STORE_CORRUPT', message, {}, { cause: error });
  }
}
