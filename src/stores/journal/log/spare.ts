/**
 * The spare segment: the next segment of the log, written ahead of need as a synced file of zeros named `spare`. It
 * is also the reserve: while no new spare can be made, the disk counts as full.
 */
import type { Cancel, Disk, DiskFile, Env } from '../../../kit/env/env.ts';
import { isFull } from '../../disk-failure.ts';
import type { Paths } from '../layout.ts';

export interface SpareEvents {
  diskFull(isFull: boolean): void;
  failed(error: Error): void;
}

type Phase =
  | { readonly is: 'none' }
  | { readonly is: 'making'; readonly done: Promise<void> }
  | { readonly is: 'ready'; readonly bytes: number }
  /** The disk was full; the spare is tried again when the timer ends. */
  | { readonly is: 'waiting'; readonly cancel: Cancel }
  | { readonly is: 'closed' };

const NONE: Phase = { is: 'none' };
const ZEROS = Buffer.alloc(2 ** 20);
export const RETRY_WHEN_FULL_MS = 1000;

export class SpareSegment {
  readonly #env: Env;
  readonly #disk: Disk;
  readonly #paths: Paths;
  readonly #minBytes: number;
  readonly #events: SpareEvents;
  #phase: Phase = NONE;
  #full = false;

  constructor(env: Env, paths: Paths, minBytes: number, events: SpareEvents) {
    this.#env = env;
    this.#disk = env.disk;
    this.#paths = paths;
    this.#minBytes = minBytes;
    this.#events = events;
  }

  /** Starts making the next spare in the background. */
  prepare(bytes: number): void {
    if (this.#phase.is === 'closed') return;
    this.#make(bytes).then(
      () => this.#retryIfNotMade(bytes),
      (error: Error) => this.#events.failed(error),
    );
  }

  /** Resolves to true once a spare of at least `bytes` is ready, and to false where the disk is full. */
  async ensure(bytes: number): Promise<boolean> {
    if (this.#phase.is === 'making') await this.#phase.done;
    if (this.#phase.is === 'ready' && this.#phase.bytes >= bytes) return true;
    if (this.#phase.is === 'waiting') this.#phase.cancel();
    await this.#make(Math.max(bytes, this.#minBytes));
    return this.#isReady();
  }

  /** Renames the spare to `path`, durably, replacing an empty segment of that name. Returns its size. */
  async take(path: string): Promise<number> {
    if (this.#phase.is !== 'ready') throw new Error('there is no spare segment to take');
    const { bytes } = this.#phase;
    await this.#disk.rename(this.#paths.spare, path);
    await this.#disk.syncFolder(this.#paths.log);
    this.#phase = NONE;
    return bytes;
  }

  /** A write of a frame failed because the disk is full. */
  noteFull(): void {
    this.#setFull(true);
  }

  /** A frame was written. The disk no longer counts as full, provided that a spare is ready too. */
  noteWritten(): void {
    if (this.#full && this.#isReady()) this.#setFull(false);
  }

  async close(): Promise<void> {
    if (this.#phase.is === 'making') await this.#phase.done.catch(() => undefined);
    if (this.#phase.is === 'waiting') this.#phase.cancel();
    this.#phase = { is: 'closed' };
  }

  #isReady(): boolean {
    return this.#phase.is === 'ready';
  }

  #retryIfNotMade(bytes: number): void {
    if (this.#phase.is !== 'none') return;
    const retry = (): void => this.prepare(Math.min(bytes, this.#minBytes));
    this.#phase = { is: 'waiting', cancel: this.#env.timers.after(RETRY_WHEN_FULL_MS, retry) };
  }

  #make(bytes: number): Promise<void> {
    const done = this.#write(bytes);
    this.#phase = { is: 'making', done };
    return done;
  }

  async #write(bytes: number): Promise<void> {
    let file: DiskFile | undefined;
    try {
      file = await this.#disk.open(this.#paths.spare, 'create');
      for (let at = 0; at < bytes; at += ZEROS.length) {
        await file.write(at, at + ZEROS.length <= bytes ? ZEROS : ZEROS.subarray(0, bytes - at));
      }
      await file.datasync();
      await file.close();
      this.#phase = { is: 'ready', bytes };
      this.#setFull(false);
    } catch (error) {
      await file?.close();
      if (!isFull(error)) {
        this.#phase = NONE;
        throw error;
      }
      await this.#disk.remove(this.#paths.spare);
      this.#phase = NONE;
      this.#setFull(true);
    }
  }

  #setFull(full: boolean): void {
    if (full === this.#full) return;
    this.#full = full;
    this.#events.diskFull(full);
  }
}
