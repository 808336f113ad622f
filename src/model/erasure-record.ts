/**
 * A session was deleted, and its key is to be dropped (docs/decisions/0035); the record's id is the session prefixed by its
 * tenant. It is deleted once the key is gone, and until then a restart goes on with it.
 */
export interface ErasureRecord {
  readonly v: 1;
  readonly tenant: string;
  readonly session: string;
  /** Grows with every deletion of the session: the end of an earlier one is not that of a later one. */
  readonly n: number;
  /** Set where the session is the origin of others, none of which was used before this instant: they are deleted too. */
  readonly othersSince?: number | undefined;
}
