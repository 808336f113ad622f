/** What is moved, and the two ends of a move. */
import type { JobBundle } from '../../core/ports/store.ts';
import type { BlobRef, BrainRecord } from '../../model/records.ts';
import type { OtherRecord } from '../records.ts';
import type { Mark } from './mark.ts';

/** Jobs that are read at a time. */
export const PAGE = 200;

export interface Head {
  readonly seq: number;
  /** The latest instant that was committed. */
  readonly at: number;
  /** No brain of this store has led with a higher one. */
  readonly epoch: number;
  readonly brain: BrainRecord;
}

/** A job with its large bodies in hand: each store names them in its own way. */
export interface LoadedJob {
  readonly bundle: JobBundle;
  /** Set where the record holds a reference only. */
  readonly payload: string | undefined;
  readonly result: string | undefined;
}

/** All that a store holds. */
export interface Contents {
  /** Where it is, in words; never with a password. */
  readonly place: string;
  readonly head: Head;
  readonly others: readonly OtherRecord[];
  readonly jobCount: number;
  /** Every job once, in any order, piece by piece. */
  jobs(): AsyncIterable<readonly JobBundle[]>;
  readBody(ref: BlobRef): Promise<string>;
  /** The same, as it is from now on: nobody else can write to it until this is closed. */
  hold(): Promise<Contents>;
  /** Throws where somebody else has written meanwhile. */
  assertHeld(): Promise<void>;
  close(): Promise<void>;
}

export type Found =
  | { readonly is: 'empty' }
  /** A move into it was begun. */
  | { readonly is: 'unfinished'; readonly mark: Mark }
  | { readonly is: 'work' };

export interface Target {
  readonly place: string;
  look(): Promise<Found>;
  /**
   * Marks it as unfinished. With `keep`, the jobs that are there were written by the same move and stay;
   * everything else goes.
   */
  begin(mark: Mark, head: Head, keep: boolean): Promise<void>;
  /** Those of these jobs that it holds already, whole. */
  has(uids: readonly string[]): Promise<ReadonlySet<string>>;
  put(jobs: readonly LoadedJob[]): Promise<void>;
  /** Writes what is left, all but the last step. */
  seal(others: readonly OtherRecord[]): Promise<void>;
  /** Reads it back as it would be read by a brain. */
  contents(): Promise<Contents>;
  /** The last step: from here on it is whole. */
  finish(): Promise<void>;
  /** What it holds is not to be built upon: the next try begins anew. */
  spoil(): Promise<void>;
  close(): Promise<void>;
}
