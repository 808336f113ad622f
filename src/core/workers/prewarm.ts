/** Computes how many workers a model should have, from the forecast of its demand. */
import type { Demand } from './demand.ts';

/** With fewer expected arrivals than this, no worker is kept ready for them. */
const MIN_ARRIVALS = 0.5;
/** A forecast reaches at least this far beyond the start of a worker: one that is ready too late is useless. */
const MIN_LEAD_MS = 60_000;
const IDLE_MS = 600_000;

export interface PoolNeed {
  readonly demand: Demand;
  readonly slotsPerWorker: number;
  /** The service time of a request; the measured one if absent. */
  readonly serviceMs?: number | undefined;
  /** How long a worker takes from its start until it is ready. */
  readonly startMs: number;
  /** The share of slots that should be busy, 0 to 1. */
  readonly targetUtilisation: number;
  readonly min: number;
  readonly max: number;
  /** The number of running workers; those that are needed again within `idleMs` are kept. */
  readonly current?: number | undefined;
  readonly idleMs?: number | undefined;
  /** Since when all of them are idle; undefined while one is busy. */
  readonly idleSince?: number | undefined;
  readonly threshold?: number | undefined;
}

export interface PoolSize {
  readonly workers: number;
  readonly reason:
    | 'load'
    | 'arrivals-expected'
    | 'recently-used'
    | 'needed-again-soon'
    | 'nothing-expected'
    | 'min'
    | 'max';
}

/** The number of workers that the model should have now. */
export function wantedWorkers(need: PoolNeed, now: number): PoolSize {
  const { demand, min, max, current = 0, startMs, idleMs = IDLE_MS } = need;
  const lead = startMs + Math.max(startMs, MIN_LEAD_MS);
  const soon = workersFor(need, demand.forecast(now, lead).peakPerSec);
  const idleSince = current > 0 ? (need.idleSince ?? now) : undefined;
  const warm = shouldKeepWarm(demand, now, idleSince, need);
  let size: PoolSize;
  if (soon > 1) size = { workers: soon, reason: 'load' };
  else if (warm.keep) size = { workers: 1, reason: warm.reason };
  else size = { workers: 0, reason: warm.reason };
  if (size.workers < current && warm.keep) {
    const later = Math.min(current, workersFor(need, demand.forecast(now, idleMs).peakPerSec));
    if (later > size.workers) size = { workers: later, reason: 'needed-again-soon' };
  }
  if (size.workers < min) return { workers: min, reason: 'min' };
  return size.workers > max ? { workers: max, reason: 'max' } : size;
}

/** The busy slots at this arrival rate, divided by the slots that one worker should have busy. */
function workersFor(
  { demand, serviceMs, slotsPerWorker, targetUtilisation }: PoolNeed,
  perSec: number,
): number {
  const busySlots = (perSec * (serviceMs ?? demand.serviceMs ?? 0)) / 1000;
  const carried = Math.max(1, slotsPerWorker) * Math.min(1, Math.max(0.05, targetUtilisation));
  // A rounding error above a whole number must not add a worker.
  return Math.ceil(busySlots / carried - 1e-6);
}

export interface WarmPolicy {
  /** A worker that has been idle for this long is stopped, unless arrivals are expected. */
  readonly idleMs?: number | undefined;
  readonly startMs?: number | undefined;
  /** The arrivals that must be expected within `startMs` + `idleMs` to keep a worker. */
  readonly threshold?: number | undefined;
}

export interface KeepWarm {
  readonly keep: boolean;
  readonly reason: 'recently-used' | 'arrivals-expected' | 'nothing-expected';
  /** The arrivals expected within `startMs` + `idleMs`. */
  readonly arrivals: number;
}

/**
 * Whether the model should have at least one worker, kept or started. `idleSince` is the instant since which its workers
 * are idle; undefined if it has none.
 */
export function shouldKeepWarm(
  demand: Demand,
  now: number,
  idleSince: number | undefined,
  { idleMs = IDLE_MS, startMs = 0, threshold = MIN_ARRIVALS }: WarmPolicy = {},
): KeepWarm {
  const { arrivals } = demand.forecast(now, idleMs + startMs);
  if (arrivals >= threshold) return { keep: true, reason: 'arrivals-expected', arrivals };
  if (idleSince !== undefined && now - idleSince < idleMs) {
    return { keep: true, reason: 'recently-used', arrivals };
  }
  return { keep: false, reason: 'nothing-expected', arrivals };
}
