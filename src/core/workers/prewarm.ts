/** How many workers a model should have, ahead of those who will ask for it. */
import type { Demand } from './demand.ts';

/** Fewer expected arrivals than this are not worth a worker that waits for them. */
const WORTH_WAITING_FOR = 0.5;
/** A forecast looks at least so far beyond the start of a worker: one that is ready too late is of no use. */
const LEAST_LEAD_MS = 60_000;
const IDLE_MS = 600_000;

export interface PoolNeed {
  readonly demand: Demand;
  readonly slotsPerWorker: number;
  /** How long a request takes; what was measured unless given. */
  readonly serviceMs?: number | undefined;
  /** How long a worker takes to be ready. */
  readonly startMs: number;
  /** Which share of the slots should be busy, 0 to 1. */
  readonly targetUtilisation: number;
  readonly min: number;
  readonly max: number;
  /** How many there are; none are taken away that would be needed again within `idleMs`. */
  readonly current?: number | undefined;
  readonly idleMs?: number | undefined;
  /** Since when none of them has had anything to do; undefined while one has. */
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

/** The size that the pool should have now. */
export function wantedWorkers(need: PoolNeed, now: number): PoolSize {
  const { demand, min, max, current = 0, startMs, idleMs = IDLE_MS } = need;
  const lead = startMs + Math.max(startMs, LEAST_LEAD_MS);
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

/** Work per second, over what the slots of one worker are meant to carry. */
function workersFor(
  { demand, serviceMs, slotsPerWorker, targetUtilisation }: PoolNeed,
  perSec: number,
): number {
  const busySlots = (perSec * (serviceMs ?? demand.serviceMs ?? 0)) / 1000;
  const carried = Math.max(1, slotsPerWorker) * Math.min(1, Math.max(0.05, targetUtilisation));
  // A hair above a whole number is not worth a worker.
  return Math.ceil(busySlots / carried - 1e-6);
}

export interface WarmPolicy {
  /** A worker that had nothing to do for so long is stopped, unless something is expected. */
  readonly idleMs?: number | undefined;
  readonly startMs?: number | undefined;
  /** Arrivals that must be expected within the time that a start and an idle wait would take. */
  readonly threshold?: number | undefined;
}

export interface KeepWarm {
  readonly keep: boolean;
  readonly reason: 'recently-used' | 'arrivals-expected' | 'nothing-expected';
  /** Expected within the horizon. */
  readonly arrivals: number;
}

/**
 * Whether at least one worker should be there, kept or started. `idleSince` is the instant since when the last
 * one has had nothing to do; undefined where there is none.
 */
export function shouldKeepWarm(
  demand: Demand,
  now: number,
  idleSince: number | undefined,
  { idleMs = IDLE_MS, startMs = 0, threshold = WORTH_WAITING_FOR }: WarmPolicy = {},
): KeepWarm {
  const { arrivals } = demand.forecast(now, idleMs + startMs);
  if (arrivals >= threshold) return { keep: true, reason: 'arrivals-expected', arrivals };
  if (idleSince !== undefined && now - idleSince < idleMs) {
    return { keep: true, reason: 'recently-used', arrivals };
  }
  return { keep: false, reason: 'nothing-expected', arrivals };
}
