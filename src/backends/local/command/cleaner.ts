/**
 * Removes folders that are no longer needed: acknowledged executions after `keepAckedMs`, in which their events stay
 * readable; tombstones after a day, when no offer can be under way any more; and ended executions that were never
 * acknowledged after a week.
 */
import { join } from 'node:path';
import type { Env } from '../../../kit/env/env.ts';
import { pause } from '../../../kit/pause.ts';
import { readRecord } from '../../../kit/record-file.ts';
import { Service } from '../../../kit/service.ts';
import { isBeingMade, readTokenState, type TokenState } from './executions.ts';
import { isTimestampRecord, type Layout, pathsIn, type TokenPaths } from './layout.ts';
import type { CommandRegistry } from './registry.ts';
import { removeFolder } from './remove.ts';

const SWEEP_MS = 60_000;
/** Every 60th sweep, which is every hour, scans the folder for executions that other processes left there. */
const SWEEPS_PER_SCAN = 60;
const KEEP_TOMBSTONE_MS = 24 * 3_600_000;
const KEEP_UNACKED_MS = 7 * 24 * 3_600_000;

/** When a folder is to be removed. */
interface Removal {
  readonly at: number;
  /** The execution has ended, and no brain has acknowledged it. */
  readonly isUnacknowledged: boolean;
}

export interface CleanerOptions {
  readonly env: Env;
  readonly layout: Layout;
  readonly registry: CommandRegistry;
  readonly keepAckedMs: number;
  /** Called for every execution that a scan finds without an end. */
  readonly onOpen: (paths: TokenPaths, state: TokenState) => Promise<void>;
  readonly onRemoved: (name: string) => void;
}

export class Cleaner extends Service {
  readonly #options: CleanerOptions;
  /** Keyed by the name of the folder. */
  readonly #removals = new Map<string, Removal>();
  #sweeps = 0;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(options: CleanerOptions) {
    super();
    this.#options = options;
  }

  protected async onStart(): Promise<void> {
    await this.#removeUnfinished();
    await this.#scan();
    await this.#removeDue();
    this.#sweeping = this.#sweepRepeatedly();
  }

  protected async onStop(): Promise<void> {
    await this.#sweeping;
  }

  startForbidden(name: string, at: number): void {
    this.#removals.set(name, { at: at + KEEP_TOMBSTONE_MS, isUnacknowledged: false });
  }

  acknowledged(name: string, at: number): void {
    this.#removals.set(name, { at: at + this.#options.keepAckedMs, isUnacknowledged: false });
  }

  async sweep(): Promise<void> {
    if (++this.#sweeps % SWEEPS_PER_SCAN === 0) await this.#scan();
    await this.#removeDue();
  }

  async #sweepRepeatedly(): Promise<void> {
    for (;;) {
      await pause(this.#options.env.timers, SWEEP_MS, this.stopSignal);
      if (this.stopSignal.aborted) return;
      // A sweep that fails, for example because of a bad disk, must not end the loop.
      await this.sweep().catch(() => undefined);
    }
  }

  async #scan(): Promise<void> {
    const { env, layout } = this.#options;
    for (const name of await env.disk.list(layout.executions)) {
      if (this.stopSignal.aborted) return;
      const paths = pathsIn(layout, name);
      const state = await readTokenState(env.disk, paths);
      if (state.is === 'tombstone') this.startForbidden(name, state.at);
      else if (state.is === 'ended') await this.#foundEnded(paths, state.exit.ended_at);
      else if (state.is !== 'absent') await this.#options.onOpen(paths, state);
    }
  }

  async #foundEnded(paths: TokenPaths, endedAt: number): Promise<void> {
    const acked = await readRecord(this.#options.env.disk, paths.acked, isTimestampRecord);
    if (acked) this.acknowledged(paths.name, acked.at);
    else this.#removals.set(paths.name, { at: endedAt + KEEP_UNACKED_MS, isUnacknowledged: true });
  }

  async #removeDue(): Promise<void> {
    const now = this.#options.env.clock.now();
    for (const [name, removal] of this.#removals) {
      if (this.stopSignal.aborted) return;
      if (removal.at > now) continue;
      // After the removal an unknown token of that time may have run, so the registry's memory is shortened first.
      // It is cut at half the time that ends are kept: more than clocks differ, less than the age of any open attempt.
      if (removal.isUnacknowledged) await this.#options.registry.forgetBefore(now - KEEP_UNACKED_MS / 2);
      // A folder that cannot be removed stays in #removals for the next sweep, and does not hold up the others.
      await this.#remove(name).catch(() => undefined);
    }
  }

  /** Renames the folder into the trash before it deletes it, so that no reader sees half of it. */
  async #remove(name: string): Promise<void> {
    const { env, layout, onRemoved } = this.#options;
    const trashed = join(layout.trash, env.random.hex(8));
    if (await env.disk.stat(join(layout.executions, name))) {
      await env.disk.rename(join(layout.executions, name), trashed);
      await removeFolder(trashed);
    }
    this.#removals.delete(name);
    onRemoved(name);
  }

  /** Removes folders that a process left half made, or half removed, when it died. */
  async #removeUnfinished(): Promise<void> {
    const { env, layout } = this.#options;
    const unfinished = (await env.disk.list(layout.staging)).filter((name) => !isBeingMade(name));
    const left = [
      ...unfinished.map((name) => join(layout.staging, name)),
      ...(await env.disk.list(layout.trash)).map((name) => join(layout.trash, name)),
    ];
    for (const path of left) await removeFolder(path).catch(() => undefined);
  }
}
