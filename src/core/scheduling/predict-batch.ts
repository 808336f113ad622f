/** Estimates when the last job of a batch ends. */
import { laneOf } from '../queue/fleet.ts';
import type { BatchJobs } from '../state/batch-table.ts';
import { jobPosition, predictStartMs, type StartHints } from './predict.ts';

/**
 * The expected milliseconds until the job of the batch that was admitted last has ended. Undefined where that cannot be
 * said: it has started, waits for other jobs, or no service time was measured yet.
 */
export function predictEndMs({ newest }: BatchJobs, now: number, hints: StartHints): number | undefined {
  if (newest?.job.state !== 'queued') return undefined;
  const startMs = predictStartMs(newest, jobPosition(newest), now, hints);
  return startMs === undefined ? undefined : startMs + Math.round(laneOf(newest)?.serviceMs ?? 0);
}
