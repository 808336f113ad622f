/**
 * Removes what is no longer needed: acknowledged executions after a while in which their events can be read
 * again, tombstones when no offer can be under way any more, and, after much longer, ends that nobody ever
 * acknowledged.
 */
import { join } from 'node:path';
import type { Env } from '../../../kit/env/env.ts';
import { pause } from '../../../kit/pause.ts';
import { readRecord } from '../../../kit/record-file.ts';
import { Service } from '../../../kit/service.ts';
import { isBeingMade, type Look, lookAt } from './executions.ts';
import { isDated, type Layout, pathsIn, type TokenPaths } from './layout.ts';
import type { Registry } from './registry.ts';
import { removeFolder } from './remove.ts';

const SWEEP_MS = 60_000;
/** Every so many sweeps the disk is looked at anew, for what others left there. */
const SCAN_EVERY = 60;
const KEEP_TOMBSTONE_MS = 24 * 3_600_000;
const KEEP_UNACKED_MS = 7 * 24 * 3_600_000;

interface Due {
  readonly at: number;
  /** Nobody has said that it is no longer needed. */
  readonly unheard: boolean;
}

export interface KeeperParts {
  readonly env: Env;
  readonly layout: Layout;
  readonly registry: Registry;
  readonly keepAckedMs: number;
  /** Hears of every execution that a scan finds without an end. */
  readonly onOpen: (paths: TokenPaths, look: Look) => Promise<void>;
  readonly onRemoved: (name: string) => void;
}

export class Keeper extends Service {
  readonly #parts: KeeperParts;
  /** Folder name → when it goes. */
  readonly #due = new Map<string, Due>();
  #sweeps = 0;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(parts: KeeperParts) {
    super();
    this.#parts = parts;
  }

  protected async onStart(): Promise<void> {
    await this.#clear();
    await this.#scan();
    await this.#removeDue();
    this.#sweeping = this.#sweepAgainAndAgain();
  }

  protected async onStop(): Promise<void> {
    await this.#sweeping;
  }

  startForbidden(name: string, at: number): void {
    this.#due.set(name, { at: at + KEEP_TOMBSTONE_MS, unheard: false });
  }

  acknowledged(name: string, at: number): void {
    this.#due.set(name, { at: at + this.#parts.keepAckedMs, unheard: false });
  }

  async sweep(): Promise<void> {
    if (++this.#sweeps % SCAN_EVERY === 0) await this.#scan();
    await this.#removeDue();
  }

  async #sweepAgainAndAgain(): Promise<void> {
    for (;;) {
      await pause(this.#parts.env.timers, SWEEP_MS, this.stopSignal);
      if (this.stopSignal.aborted) return;
      // A sweep that fails on a bad disk is no reason to have none later.
      await this.sweep().catch(() => undefined);
    }
  }

  async #scan(): Promise<void> {
    const { env, layout } = this.#parts;
    for (const name of await env.disk.list(layout.executions)) {
      if (this.stopSignal.aborted) return;
      const paths = pathsIn(layout, name);
      const look = await lookAt(env.disk, paths);
      if (look.is === 'tombstone') this.startForbidden(name, look.at);
      else if (look.is === 'ended') await this.#noteEnded(paths, look.exit.ended_at);
      else if (look.is !== 'absent') await this.#parts.onOpen(paths, look);
    }
  }

  async #noteEnded(paths: TokenPaths, endedAt: number): Promise<void> {
    const acked = await readRecord(this.#parts.env.disk, paths.acked, isDated);
    if (acked) this.acknowledged(paths.name, acked.at);
    else this.#due.set(paths.name, { at: endedAt + KEEP_UNACKED_MS, unheard: true });
  }

  async #removeDue(): Promise<void> {
    const now = this.#parts.env.clock.now();
    for (const [name, due] of this.#due) {
      if (this.stopSignal.aborted) return;
      if (due.at > now) continue;
      // From now on silence about a token of that time means nothing. Half the time it was kept is more than
      // clocks differ, and less than any open attempt of ours is old.
      if (due.unheard) await this.#parts.registry.forgetBefore(now - KEEP_UNACKED_MS / 2);
      // What cannot be removed now is tried again, and holds up nothing else.
      await this.#remove(name).catch(() => undefined);
    }
  }

  /** Moved out of the way first, so that half a folder is never seen. */
  async #remove(name: string): Promise<void> {
    const { env, layout, onRemoved } = this.#parts;
    const trashed = join(layout.trash, env.random.hex(8));
    if (await env.disk.stat(join(layout.executions, name))) {
      await env.disk.rename(join(layout.executions, name), trashed);
      await removeFolder(trashed);
    }
    this.#due.delete(name);
    onRemoved(name);
  }

  /** What processes that died in the middle of something left. */
  async #clear(): Promise<void> {
    const { env, layout } = this.#parts;
    const unfinished = (await env.disk.list(layout.staging)).filter((name) => !isBeingMade(name));
    const left = [
      ...unfinished.map((name) => join(layout.staging, name)),
      ...(await env.disk.list(layout.trash)).map((name) => join(layout.trash, name)),
    ];
    for (const path of left) await removeFolder(path).catch(() => undefined);
  }
}
