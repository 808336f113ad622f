/**
 * Measures the data folder now and then, in the background: a scrape of the metrics reads the last measurement and no
 * folder.
 */
import { join } from 'node:path';
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { Service } from '../kit/service.ts';
import type { StoreParts } from '../stores/descriptor.ts';
import type { FolderSizes, StorageTally } from '../telemetry/storage-metrics.ts';

const MEASURE_EVERY_MS = 30_000;
/** The pause after a measurement is so many times as long as the measurement: a folder may have a million blobs. */
const PAUSE_FACTOR = 50;

export interface FolderMeterParts {
  readonly env: Pick<Env, 'disk' | 'timers' | 'clock'>;
  readonly folder: string;
  /** The parts of the store that are in the folder. */
  readonly parts: StoreParts;
  readonly tally: StorageTally;
}

export class FolderMeter extends Service {
  readonly #parts: FolderMeterParts;
  #measuring: Promise<void> = Promise.resolve();

  constructor(parts: FolderMeterParts) {
    super();
    this.#parts = parts;
  }

  /** Does not wait for the first measurement: a folder with many files would delay the start. */
  protected async onStart(): Promise<void> {
    this.#measuring = this.#measureRepeatedly();
  }

  protected async onStop(): Promise<void> {
    await this.#measuring;
  }

  async #measureRepeatedly(): Promise<void> {
    const { env, tally } = this.#parts;
    while (!this.stopSignal.aborted) {
      const since = env.clock.monotonic();
      // A folder that cannot be read has no sizes: the last ones may be wrong by any amount.
      const sizes = await this.#sizes().catch(() => undefined);
      if (this.stopSignal.aborted) return;
      tally.sizes = sizes;
      const tookMs = env.clock.monotonic() - since;
      await pause(env.timers, Math.max(MEASURE_EVERY_MS, tookMs * PAUSE_FACTOR), this.stopSignal);
    }
  }

  async #sizes(): Promise<FolderSizes> {
    const { env, folder, parts } = this.#parts;
    const measured = new Map<string, number>();
    for (const [part, paths] of Object.entries(parts)) {
      let bytes = 0;
      for (const path of paths) bytes += await this.#bytes(path);
      measured.set(part, bytes);
    }
    // Where the store is elsewhere, the folder need not exist.
    const space = await env.disk.space?.(folder).catch(() => undefined);
    return { parts: measured, freeBytes: space?.freeBytes };
  }

  /** One file after another: the threads that look them up also write the log. */
  async #bytes(path: string): Promise<number> {
    const { disk } = this.#parts.env;
    const found = await disk.stat(path);
    if (!found?.isFolder) return found?.size ?? 0;
    let bytes = 0;
    for (const name of await disk.list(path)) {
      if (this.stopSignal.aborted) break;
      bytes += (await disk.stat(join(path, name)))?.size ?? 0;
    }
    return bytes;
  }
}
