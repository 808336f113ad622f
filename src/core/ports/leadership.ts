/** Who may be the brain, where several nodes could. Implementations live outside of core. */

/** One node's time as the leader. */
export interface Term {
  readonly epoch: number;
  /** Whether it is certain that no other node leads; without that nothing may be done for the brain. */
  holds(): boolean;
  /** Resolves when it is over, or may be. */
  readonly over: Promise<void>;
}

export interface Leader {
  readonly epoch: number;
  readonly node: string;
  /** Where the others reach it. */
  readonly address: string;
  /** How long its main loop had been silent when it last renewed. */
  readonly silentMs: number;
}

/** The right to be the brain, which one node has at a time. */
export interface Leadership {
  /** What is locked to shorten the wait for it. */
  readonly lockName: string;
  /** Who leads, as far as is known here. */
  readonly leader: Leader | undefined;
  /** Makes the store ready; refuses one that cannot be used. */
  open(self: { readonly node: string; readonly address: string }): Promise<void>;
  /** Resolves when this node leads. */
  win(): Promise<Term>;
  /** Gives it up, for the next one to take at once. */
  resign(): Promise<void>;
  /** Called whenever another one leads, or nobody. */
  onChange(listener: () => void): void;
  close(): Promise<void>;
}
