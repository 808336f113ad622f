/** A constant number of callers, each asking again as soon as it is answered: first to warm up, then measured. */
import type { Values } from './bench.ts';
import { Meter, type Reading } from './meter.ts';
import { now, quantile, sleep } from './numbers.ts';

export interface Load {
  readonly inFlight: number;
  readonly warmMs: number;
  readonly measureMs: number;
  readonly folder: string;
  /** Syncs that our own process has asked for so far. */
  readonly syncs?: () => number;
  /** Processes whose CPU belongs to the measured system. */
  readonly servers?: readonly number[];
}

export async function steady(load: Load, one: (at: number) => Promise<unknown>): Promise<Values> {
  let phase: 'warm' | 'measure' | 'stop' = 'warm';
  let next = 0;
  const waits: number[] = [];
  const client = async (): Promise<void> => {
    while (phase !== 'stop') {
      const start = now();
      await one(next++);
      if (phase === 'measure') waits.push(now() - start);
    }
  };
  const clients = Promise.all(Array.from({ length: load.inFlight }, client));
  await Promise.race([sleep(load.warmMs), clients]);
  phase = 'measure';
  const meter = new Meter(load.folder, load.servers);
  const syncsBefore = load.syncs?.();
  await Promise.race([sleep(load.measureMs), clients]);
  const reading = meter.read();
  const count = waits.length;
  const syncs = load.syncs && syncsBefore !== undefined ? load.syncs() - syncsBefore : undefined;
  phase = 'stop';
  await clients;
  return { ...perItem(reading, count, syncs), p50Ms: quantile(waits, 0.5), p99Ms: quantile(waits, 0.99) };
}

/** What one item cost, from what all of them cost. */
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
