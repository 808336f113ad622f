/** The two sides of a migration: the contents of the source, and the target they are written to. */

import type { SessionKey } from '../../core/ports/keys.ts';
import type { JobBundle } from '../../core/ports/store.ts';
import type { BlobRef } from '../../model/body.ts';
import type { Charge } from '../../model/charge.ts';
import type { BrainRecord } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { OtherRecord } from '../records.ts';
import type { MigrationMark } from './mark.ts';

/** Number of jobs that are read at once. */
export const JOBS_PER_PAGE = 200;
/** Number of archived sessions that are read at once. */
export const SESSIONS_PER_PAGE = 200;
/** Number of charges that are read at once. */
export const CHARGES_PER_PAGE = 500;

/** Number of keys that are read at once. */
export const KEYS_PER_PAGE = 500;

/** The state of a store as a whole, beside its records. */
export interface StoreHead {
  /** The number of the last change. */
  readonly seq: number;
  /** The latest instant that was committed. */
  readonly at: number;
  /** The highest epoch that any brain of this store has had. */
  readonly epoch: number;
  readonly brain: BrainRecord;
}

/** A job and the text of its large bodies, since a body's reference is valid in its own store only. */
export interface LoadedJob {
  readonly bundle: JobBundle;
  /** Set where the record holds a reference instead of the payload itself. */
  readonly payload: string | undefined;
  /** Set where the record holds a reference instead of its kept body itself. */
  readonly kept: string | undefined;
}

/** A session and the texts of its large bodies. */
export interface LoadedSession {
  readonly record: SessionRecord;
  /** Set where the record has messages. */
  readonly messages: string | undefined;
  /** Set where the record holds a reference instead of the metadata itself. */
  readonly metadata: string | undefined;
}

/** Everything that a store holds. */
export interface StoreContents {
  /** The store's location in texts for people; never with a password. */
  readonly place: string;
  readonly head: StoreHead;
  readonly others: readonly OtherRecord[];
  readonly jobCount: number;
  /** Yields every job once, in any order, page by page. */
  jobs(): AsyncIterable<readonly JobBundle[]>;
  /** Yields every charge once, in any order, page by page. */
  charges(): AsyncIterable<readonly Charge[]>;
  /** Yields every archived session once, in any order, page by page. */
  sessions(): AsyncIterable<readonly SessionRecord[]>;
  /** Yields every key of a session once, in any order, page by page. */
  keys(): AsyncIterable<readonly SessionKey[]>;
  readBody(ref: BlobRef): Promise<string>;
  /** Keeps everybody else from writing to the store until close(), and returns its contents as of now. */
  hold(): Promise<StoreContents>;
  /** Throws where somebody else has written to the store since hold(). */
  assertHeld(): Promise<void>;
  close(): Promise<void>;
}

export type TargetState =
  | { readonly is: 'empty' }
  /** An earlier migration to this target was not finished. */
  | { readonly is: 'unfinished'; readonly mark: MigrationMark }
  /** The target holds records and carries no mark. */
  | { readonly is: 'work' };

export interface MigrationTarget {
  readonly place: string;
  inspect(): Promise<TargetState>;
  /**
   * Marks the target as unfinished. With `keep`, its jobs stay, since an earlier run of the same migration wrote them;
   * everything else is deleted.
   */
  begin(mark: MigrationMark, head: StoreHead, keep: boolean): Promise<void>;
  /** The subset of these jobs that the target holds already, each complete. */
  has(uids: readonly string[]): Promise<ReadonlySet<string>>;
  put(jobs: readonly LoadedJob[]): Promise<void>;
  /** Charges that the target holds already are left as they are. */
  putCharges(charges: readonly Charge[]): Promise<void>;
  /** Writes archived sessions; those that the target holds already are replaced. */
  putSessions(sessions: readonly SessionRecord[]): Promise<void>;
  /** Stores a body of a session. */
  putBody(text: string, of: SessionRecord): Promise<BlobRef>;
  /** Keys that the target holds already are left as they are. */
  putKeys(keys: readonly SessionKey[]): Promise<void>;
  /** Writes all remaining records; only the mark stays. */
  seal(others: readonly OtherRecord[]): Promise<void>;
  /** Reads the target back as a brain would. */
  contents(): Promise<StoreContents>;
  /** Removes the mark: from here on a brain can open the target. */
  finish(): Promise<void>;
  /** Changes the mark so that the next run keeps nothing of what was written. */
  invalidate(): Promise<void>;
  close(): Promise<void>;
}
