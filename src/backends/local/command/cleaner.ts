/**
 * Removes folders that are no longer needed: acknowledged executions after `keepAckedMs`, in which their events stay
 * readable; tombstones after a day, when no offer can be under way any more; and ended executions that were never
 * acknowledged after a week. All of this is lived time, counted while a brain is there to ask for its results: neither a
 * wrong clock nor a machine that was off for a month removes anything.
 */
import { join } from 'node:path';
import type { Env } from '../../../kit/env/env.ts';
import type { LivedTime } from '../../../kit/lived-time.ts';
import { pause } from '../../../kit/pause.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import { Service } from '../../../kit/service.ts';
import { eraseExecution, isBeingErased } from './erase.ts';
import { isBeingMade, readTokenState, type TokenState } from './executions.ts';
import { isTimestampRecord, type Layout, pathsIn, type TimestampRecord, type TokenPaths } from './layout.ts';
import type { CommandRegistry } from './registry.ts';
import { removeFolder } from './remove.ts';

const SWEEP_MS = 60_000;
/** Every 60th sweep, which is every hour, scans the folder for executions that other processes left there. */
const SWEEPS_PER_SCAN = 60;
const KEEP_TOMBSTONE_MS = 24 * 3_600_000;
const KEEP_UNACKED_MS = 7 * 24 * 3_600_000;

/** When a folder is to be removed. */
interface Removal {
  /** In lived time. */
  readonly at: number;
  /** The end of an execution that no brain has acknowledged, by the wall clock of its keeper. */
  readonly unackedEnd?: number;
  /** The token of that execution. */
  readonly token?: string | undefined;
}

type EndedState = Extract<TokenState, { readonly is: 'ended' }>;

export interface CleanerOptions {
  readonly env: Env;
  readonly layout: Layout;
  readonly registry: CommandRegistry;
  readonly lived: LivedTime;
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
    // Nothing is removed yet: the brain, which has just started too, asks for its results first.
    await this.#scan();
    this.#sweeping = this.#sweepRepeatedly();
  }

  protected async onStop(): Promise<void> {
    await this.#sweeping;
  }

  startForbidden(name: string, { lived = this.#options.lived.now() }: TimestampRecord): void {
    this.#removals.set(name, { at: lived + KEEP_TOMBSTONE_MS });
  }

  acknowledged(name: string, { lived = this.#options.lived.now() }: TimestampRecord): void {
    this.#removals.set(name, { at: lived + this.#options.keepAckedMs });
  }

  /** The folders and tokens of ended executions that a scan has found without an acknowledgement. */
  *unacknowledged(): Generator<{ readonly name: string; readonly token: string }> {
    for (const [name, { token }] of this.#removals) if (token !== undefined) yield { name, token };
  }

  async sweep(): Promise<void> {
    await this.#options.lived.save();
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
      if (state.is === 'tombstone') this.startForbidden(name, state.record);
      else if (state.is === 'ended') await this.#foundEnded(paths, state);
      else if (state.is !== 'absent') await this.#options.onOpen(paths, state);
    }
  }

  async #foundEnded(paths: TokenPaths, { exit, owner }: EndedState): Promise<void> {
    if (await isBeingErased(this.#options.env.disk, paths)) return this.#eraseRest(paths);
    const acked = await readRecord(this.#options.env.disk, paths.acked, isTimestampRecord);
    if (acked) return this.acknowledged(paths.name, acked);
    const at = (await this.#unaskedSince(paths)) + KEEP_UNACKED_MS;
    this.#removals.set(paths.name, { at, unackedEnd: exit.ended_at, token: owner?.token });
  }

  async #eraseRest(paths: TokenPaths): Promise<void> {
    const { env, lived } = this.#options;
    const record = { at: env.clock.now(), lived: lived.now() };
    await eraseExecution(env, paths, record);
    this.startForbidden(paths.name, record);
  }

  /** The lived time at which this end was first found without an acknowledgement. */
  async #unaskedSince({ unasked }: TokenPaths): Promise<number> {
    const { env, lived } = this.#options;
    const found = await readRecord(env.disk, unasked, isTimestampRecord);
    if (found?.lived !== undefined) return found.lived;
    const now = lived.now();
    await writeRecord(env, unasked, { at: env.clock.now(), lived: now }, 'visible');
    return now;
  }

  async #removeDue(): Promise<void> {
    const { lived, env, registry } = this.#options;
    for (const [name, { at, unackedEnd }] of this.#removals) {
      if (this.stopSignal.aborted) return;
      if (at > lived.now()) continue;
      // After the removal an unknown token of that time may have run, so the registry's memory is shortened first.
      // It is cut at half the time that ends are kept: more than clocks differ, less than the age of any open attempt;
      // and not before the end itself, for a clock that was wrong then or is wrong now.
      if (unackedEnd !== undefined)
        await registry.forgetBefore(Math.max(env.clock.now() - KEEP_UNACKED_MS / 2, unackedEnd + 1));
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
