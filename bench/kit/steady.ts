/** A steady load: a constant number of callers, each of which calls again as soon as it is answered. */
import type { Values } from './bench.ts';
import { Meter, type Reading } from './meter.ts';
import { now, quantile, sleep } from './numbers.ts';

export interface Load {
  readonly inFlight: number;
  readonly warmMs: number;
  readonly measureMs: number;
  readonly folder: string;
  /** The number of syncs of this process so far. */
  readonly syncs?: () => number;
  /** Processes whose CPU belongs to the measured system. */
  readonly servers?: readonly number[];
}

/** Calls `one` for warmMs without measuring, then for measureMs with. */
export async function steady(load: Load, one: (at: number) => Promise<unknown>): Promise<Values> {
  let phase: 'warm' | 'measure' | 'stop' = 'warm';
  let next = 0;
  const latencies: number[] = [];
  const client = async (): Promise<void> => {
    while (phase !== 'stop') {
      const start = now();
      await one(next++);
      if (phase === 'measure') latencies.push(now() - start);
    }
  };
  const clients = Promise.all(Array.from({ length: load.inFlight }, client));
  await Promise.race([sleep(load.warmMs), clients]);
  phase = 'measure';
  const meter = new Meter(load.folder, load.servers);
  const syncsBefore = load.syncs?.();
  await Promise.race([sleep(load.measureMs), clients]);
  const reading = meter.read();
  const count = latencies.length;
  const syncs = load.syncs && syncsBefore !== undefined ? load.syncs() - syncsBefore : undefined;
  phase = 'stop';
  await clients;
  return {
    ...perItem(reading, count, syncs),
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
  };
}

/** Divides the totals of a reading by the number of items. */
export function perItem(reading: Reading, count: number, syncs: number | undefined): Values {
  return {
    perSec: count / reading.seconds,
    cpuUs: reading.cpuUs / count,
    serverUs: reading.serversUs > 0 ? reading.serversUs / count : undefined,
    mainUs: reading.mainThreadUs / count,
    flushes: reading.flushes === undefined ? undefined : reading.flushes / count,
    ownSyncs: syncs === undefined ? undefined : syncs / count,
    otherCores: reading.otherCores,
  };
}
