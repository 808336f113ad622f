/**
 * Syncs folders for many callers. A sync of a folder covers all renames before it, so that callers can share it:
 *
 * 1. All who ask for a folder while it is being synced share the next sync of it.
 * 2. Before a sync begins, it waits for the transactions under way (`during`), which may be about to ask too: until each of
 *    them waits here or has ended, or none has come for GATHER_MS. One that is alone waits for nobody.
 */
import type { Disk, Timers } from './env/env.ts';
import { SharedCall } from './shared-call.ts';

/** Longer than the pauses between transactions that come one after the other on a busy machine. */
const GATHER_MS = 20;

/** Callers whose syncs begin together. */
interface Gathering {
  readonly folders: Set<string>;
  callers: number;
  stopWaiting: () => void;
  /** Resolves when the syncs have begun, to the sync of each folder. */
  readonly begun: PromiseWithResolvers<ReadonlyMap<string, Promise<void>>>;
}

export class FolderSyncs {
  readonly #disk: Disk;
  readonly #timers: Timers;
  readonly #calls = new Map<string, SharedCall<void>>();
  #transactions = 0;
  #gathering: Gathering | undefined;

  constructor(disk: Disk, timers: Timers) {
    this.#disk = disk;
    this.#timers = timers;
  }

  /** Runs a transaction that asks for syncs. One must not be run within another. */
  async during<T>(transaction: () => Promise<T>): Promise<T> {
    this.#transactions++;
    try {
      return await transaction();
    } finally {
      this.#transactions--;
      // Not at once: an agent mostly begins its next transaction in this turn, and that one is to be waited for too.
      this.#timers.soon(() => this.#beginIfAllWait());
    }
  }

  /** Settles after syncs of these folders that began after this call. */
  async sync(...folders: string[]): Promise<void> {
    const gathering = this.#join(folders);
    this.#beginIfAllWait();
    const syncs = await gathering.begun.promise;
    await Promise.all(folders.map((folder) => syncs.get(folder)));
  }

  #join(folders: readonly string[]): Gathering {
    this.#gathering ??= {
      folders: new Set(),
      callers: 0,
      stopWaiting: () => undefined,
      begun: Promise.withResolvers(),
    };
    const gathering = this.#gathering;
    gathering.callers++;
    for (const folder of folders) gathering.folders.add(folder);
    gathering.stopWaiting();
    gathering.stopWaiting = this.#timers.after(GATHER_MS, () => this.#begin(gathering));
    return gathering;
  }

  #beginIfAllWait(): void {
    const gathering = this.#gathering;
    if (gathering && gathering.callers >= this.#transactions) this.#begin(gathering);
  }

  #begin(gathering: Gathering): void {
    gathering.stopWaiting();
    this.#gathering = undefined;
    const syncs = [...gathering.folders].map((folder) => [folder, this.#callOf(folder).ask()] as const);
    gathering.begun.resolve(new Map(syncs));
  }

  #callOf(folder: string): SharedCall<void> {
    let call = this.#calls.get(folder);
    if (!call) {
      call = new SharedCall(() => this.#disk.syncFolder(folder));
      this.#calls.set(folder, call);
    }
    return call;
  }
}
