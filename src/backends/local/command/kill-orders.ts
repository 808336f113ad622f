/** Orders the ends of commands: by a file in the folder of each, and a signal that makes its keeper look for it. */
import type { Env } from '../../../kit/env/env.ts';
import { signal } from '../../../kit/process/identity.ts';
import { writeRecord } from '../../../kit/record-file.ts';
import type { KeeperClient } from './keeper-client.ts';
import type { OwnerRecord, TokenPaths } from './layout.ts';

/** A keeper that has not carried out a kill after this time is killed itself; another one takes over its commands. */
const STUCK_KEEPER_MS = 10_000;

interface KillOrder {
  /** By the monotonic clock. */
  readonly at: number;
  /** Whether the `kill` file could be written. */
  readonly recorded: Promise<boolean>;
}

export class KillOrders {
  readonly #env: Env;
  readonly #keeper: KeeperClient;
  /** By the name of the token's folder. */
  readonly #orders = new Map<string, KillOrder>();

  constructor(env: Env, keeper: KeeperClient) {
    this.#env = env;
    this.#keeper = keeper;
  }

  /** Forgets the order: the command has ended. */
  ended(name: string): void {
    this.#orders.delete(name);
  }

  /** `owner` is the keeper of the running command, or its supervisor of an earlier version. */
  async kill({ name, kill }: TokenPaths, owner: OwnerRecord, registry: string): Promise<void> {
    const order = this.#orders.get(name) ?? this.#record(name, kill);
    if (this.#env.clock.monotonic() - order.at > STUCK_KEEPER_MS) {
      signal(owner.pid, 'SIGKILL');
      // The next keeper has as much time as this one.
      this.#orders.delete(name);
      return;
    }
    // A second kill waits too: a supervisor that gets SIGTERM before the `kill` file exists reports `terminated`.
    const isRecorded = await order.recorded;
    // A full disk must not keep a command running.
    if (!isRecorded && owner.kept) await this.#keeper.kill(name, registry).catch(() => undefined);
    signal(owner.pid, owner.kept ? 'SIGUSR2' : 'SIGTERM');
  }

  #record(name: string, path: string): KillOrder {
    const { clock } = this.#env;
    const recorded = writeRecord(this.#env, path, { at: clock.now() }, 'unsynced').then(
      () => true,
      () => false,
    );
    const order = { at: clock.monotonic(), recorded };
    this.#orders.set(name, order);
    return order;
  }
}
