/** The port to leader election: which of several nodes is the brain. Implementations live outside of core. */

/** One node's time as the leader. */
export interface Term {
  readonly epoch: number;
  /** Whether it is certain that no other node leads; otherwise this node must not act as the brain. */
  holds(): boolean;
  /** Resolves when the term has ended, or may have ended. */
  readonly over: Promise<void>;
}

export interface Leader {
  readonly epoch: number;
  readonly node: string;
  /** The address at which other nodes reach it. */
  readonly address: string;
  /** How long its main loop had been unresponsive when it last renewed its term. */
  readonly silentMs: number;
}

/** The right to be the brain, which one node has at a time. */
export interface Leadership {
  /** The name of the lock that lets a follower notice the end of the leader sooner. */
  readonly lockName: string;
  /** The leader, as far as this node knows. */
  readonly leader: Leader | undefined;
  /** Prepares the store; rejects if it cannot be used. */
  open(self: { readonly node: string; readonly address: string }): Promise<void>;
  /** Resolves when this node leads. */
  win(): Promise<Term>;
  /** Gives up the lead, so that another node can take it at once. */
  resign(): Promise<void>;
  /** The listener is called whenever the leader changes, also to none. */
  onChange(listener: () => void): void;
  close(): Promise<void>;
}
