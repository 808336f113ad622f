/**
 * Finds out when a body that found no space would fit again. While the disk counts as full no new body is written, so
 * nothing else would notice.
 */
import { join } from 'node:path';
import type { Cancel, Disk, DiskFile, Timers } from '../../kit/env/env.ts';
import { RETRY_WHEN_FULL_MS } from './log/spare.ts';

const NAME = 'probe';
const ZEROS = Buffer.alloc(2 ** 20);

type Phase =
  | { readonly is: 'idle' }
  /** The next try begins when the timer ends. */
  | { readonly is: 'waiting'; readonly cancel: Cancel }
  | { readonly is: 'trying'; readonly done: Promise<void> }
  | { readonly is: 'closed' };

const IDLE: Phase = { is: 'idle' };

export class BlobProbe {
  readonly #timers: Timers;
  readonly #disk: Disk;
  readonly #path: string;
  readonly #onSpace: (isFull: boolean) => void;
  #phase: Phase = IDLE;
  /** The largest body that found no space; 0 while there is space. */
  #bytes = 0;

  constructor(timers: Timers, disk: Disk, folder: string, onSpace: (isFull: boolean) => void) {
    this.#timers = timers;
    this.#disk = disk;
    this.#path = join(folder, NAME);
    this.#onSpace = onSpace;
  }

  /** Removes the file of a probe that a crash has left. */
  async open(): Promise<void> {
    if (await this.#disk.stat(this.#path)) await this.#disk.remove(this.#path);
  }

  /** A body of this size found no space. */
  failed(bytes: number): void {
    this.#bytes = Math.max(this.#bytes, bytes);
    this.#onSpace(true);
    if (this.#phase.is === 'idle') this.#wait();
  }

  /** A body of this size was written. */
  written(bytes: number): void {
    if (this.#bytes > 0 && bytes >= this.#bytes) this.#foundSpace();
  }

  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = { is: 'closed' };
    if (phase.is === 'waiting') phase.cancel();
    if (phase.is === 'trying') await phase.done;
  }

  #foundSpace(): void {
    this.#bytes = 0;
    if (this.#phase.is === 'waiting') {
      this.#phase.cancel();
      this.#phase = IDLE;
    }
    this.#onSpace(false);
  }

  #wait(): void {
    const cancel = this.#timers.after(RETRY_WHEN_FULL_MS, () => {
      this.#phase = { is: 'trying', done: this.#tryAgain() };
    });
    this.#phase = { is: 'waiting', cancel };
  }

  async #tryAgain(): Promise<void> {
    const bytes = this.#bytes;
    const fits = await this.#fits(bytes);
    if (this.#phase.is === 'closed') return;
    this.#phase = IDLE;
    // A body may have been written meanwhile, or a larger one have failed.
    if (this.#bytes === 0) return;
    if (fits && bytes === this.#bytes) this.#foundSpace();
    else this.#wait();
  }

  /** Writes so many bytes, syncs and removes them. Any failure counts as no space: a broken disk shows elsewhere. */
  async #fits(bytes: number): Promise<boolean> {
    let file: DiskFile | undefined;
    try {
      file = await this.#disk.open(this.#path, 'create');
      for (let at = 0; at < bytes; at += ZEROS.length)
        await file.write(at, ZEROS.subarray(0, Math.min(ZEROS.length, bytes - at)));
      await file.datasync();
      return true;
    } catch {
      return false;
    } finally {
      await file?.close();
      await this.#disk.remove(this.#path).catch(() => undefined);
    }
  }
}
