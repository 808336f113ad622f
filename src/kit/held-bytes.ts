/** Bytes that several readers share, and that count as used memory until the last of them has released them. */
export interface HeldBytes {
  readonly bytes: Buffer;
  /** Called once by each reader, when it has sent the bytes or given up. */
  release(): void;
}

/** A large value in the store, which is read when somebody is ready to use it. */
export interface LargeValue {
  /** `now`: throws SERVER_BUSY if there is no room for it. `later`: waits until there is. */
  open(when: 'now' | 'later'): Promise<HeldBytes>;
}
