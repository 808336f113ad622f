/** Measurements of what the brain stores: durations of commits and syncs, sizes of the files, free space. */
import type { Registry } from 'prom-client';
import { Buckets, histogram, LATENCY_SEC } from './buckets.ts';
import { gauge, type Sample, single } from './family.ts';

/** The last measurement of the data folder. */
export interface FolderSizes {
  /** Bytes of the files of each part of the store. */
  readonly parts: ReadonlyMap<string, number>;
  /** Undefined where the disk does not say. */
  readonly freeBytes: number | undefined;
}

export class StorageTally {
  readonly commitSec = new Buckets(LATENCY_SEC);
  readonly #syncSec = new Map<string, Buckets>();
  /** Undefined until the folder was measured. */
  sizes: FolderSizes | undefined;

  /** `part` is that of the store to which the file belongs. */
  synced(part: string, tookMs: number): void {
    let times = this.#syncSec.get(part);
    if (!times) {
      times = new Buckets(LATENCY_SEC);
      this.#syncSec.set(part, times);
    }
    times.note(tookMs / 1000);
  }

  get syncSec(): ReadonlyMap<string, Buckets> {
    return this.#syncSec;
  }
}

export function storageMetrics(tally: StorageTally, registry: Registry): void {
  histogram({
    name: 'orchd_commit_duration_seconds',
    help: 'From the decision of changes until they were durable',
    registry,
    series: () => [[{}, tally.commitSec]],
  });
  histogram({
    name: 'orchd_fsync_duration_seconds',
    help: 'Syncs of files, by the part of the data folder',
    registry,
    series: () => Array.from(tally.syncSec, ([part, times]) => [{ part }, times] as const),
  });
  gauge({
    name: 'orchd_data_bytes',
    help: 'Size of the files in the data folder, by part, when they were last measured',
    registry,
    samples: () => Array.from(tally.sizes?.parts ?? [], ([part, bytes]): Sample => [{ part }, bytes]),
  });
  gauge({
    name: 'orchd_data_free_bytes',
    help: 'Free space of the file system of the data folder, when it was last measured',
    registry,
    samples: () => single(tally.sizes?.freeBytes),
  });
}
