/**
 * The port to the keys with which the bodies of sessions are sealed (docs/decisions/0035). Keys are in no record, no log
 * and no checkpoint: whoever drops the key of a session has erased its text wherever it is.
 */
import type { SealKey } from '../../kit/seal.ts';

export interface KeyOwner {
  readonly tenant: string;
  readonly session: string;
}

export interface SessionKey extends SealKey, KeyOwner {}

export interface KeyOwners {
  readonly owners: readonly KeyOwner[];
  /** Undefined behind the last page. */
  readonly next: number | undefined;
}

export interface SessionKeys {
  /** The key of a session; makes one if there is none. It is durable, and all callers get the same one. */
  obtain(owner: KeyOwner): Promise<SealKey>;
  /** The key with this id; undefined if it was dropped, or never made. */
  find(id: string): Promise<Buffer | undefined>;
  /** Erases the key of a session, if it has one; settles when that is durable. The session may get another one later. */
  drop(owner: KeyOwner): Promise<void>;
  /** The owners of some of the keys; `after` is 0, or `next` of the page before. */
  owners(after: number, limit: number): Promise<KeyOwners>;
}

/** The most keys that a store keeps: far more than there are sessions, since keys outlive them while jobs are readable. */
export const MAX_KEYS = 1_000_000;
