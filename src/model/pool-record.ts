/** An operator's order for a pool. */
export interface PoolRecord {
  readonly v: 1;
  readonly draining: true | undefined;
  /** When workers that are still busy are stopped; undefined waits for them. */
  readonly drainBy: number | undefined;
  /** The model to start a worker with, once the others have stopped. */
  readonly reload: string | undefined;
  readonly by: string;
  readonly at: number;
}
