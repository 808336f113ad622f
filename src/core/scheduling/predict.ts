/** Estimates told to people who wait. */
import type { JobEntry } from '../entry.ts';
import type { Lane } from '../queue/lane.ts';

/** Ready jobs ahead in the lane; undefined for a job that does not wait in one. */
export function jobPosition(entry: JobEntry): number | undefined {
  return entry.lane && entry.queuePos >= 0 ? entry.lane.positionOf(entry) : undefined;
}

/**
 * About how many milliseconds until the job starts, from the jobs ahead, the slots that serve the lane and the
 * measured service time. Undefined where nothing was measured yet or nothing can run it.
 */
export function predictStartMs(
  entry: JobEntry,
  position: number | undefined,
  now: number,
): number | undefined {
  if (entry.rec.state !== 'queued') return entry.rec.state === 'claimed' ? 0 : undefined;
  if (entry.parked === 'not_before') return entry.waitsUntil - now;
  const lane = entry.lane;
  if (position === undefined || !lane) return undefined;
  const slots = slotsOf(lane);
  if (slots === 0) return undefined;
  if (lane.freeBackends > 0 && position === 0) return 0;
  if (lane.serviceMs === undefined) return undefined;
  return Math.round((lane.serviceMs * (position + 1)) / slots);
}

function slotsOf(lane: Lane): number {
  let slots = 0;
  for (const backend of lane.backends) if (backend.up && !backend.away) slots += backend.info.slots;
  return slots;
}
