/** Moves jobs along their routes: after what became of a try, and while they wait. */
import type { ErrorInfo } from '../../model/errors.ts';
import { reroute } from '../../model/moves.ts';
import type { TurnedAwayReason } from '../../model/reasons.ts';
import type { RoutePlace, RouteReason } from '../../model/route.ts';
import { nextPlace } from '../scheduling/routing.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { isProviderFault } from './provider-fault.ts';

/** The place at which a job is tried again after an error; undefined if it stays where it is. */
export function placeAfter(turn: Turn, entry: JobEntry, error: ErrorInfo): RoutePlace | undefined {
  if (!entry.job.place) return undefined;
  if (error.code === 'CONTEXT_TOO_LONG') return nextPlace(turn, entry, 'too_long', turn.now);
  return isProviderFault(error) ? nextPlace(turn, entry, 'error', turn.now) : undefined;
}

const BY_TURNING_AWAY: Readonly<Record<TurnedAwayReason, RouteReason>> = {
  rate_limited: 'rate_limited',
  overloaded: 'rate_limited',
  quota: 'rate_limited',
  unreachable: 'error',
  auth_required: 'error',
};

/** A provider has turned the waiting job away. */
export const leaveAfterTurningAway = (turn: Turn, entry: JobEntry, why: TurnedAwayReason): void =>
  leave(turn, entry, BY_TURNING_AWAY[why]);

/** The job has waited for its step as long as the step allows. A job whose route is gone stays, and waits no more. */
export function leaveAfterWait(turn: Turn, entry: JobEntry): void {
  leave(turn, entry, 'wait_ms');
  const { job } = entry;
  if (job.place?.leaveAt === undefined || job.place.leaveAt > turn.now) return;
  turn.put('job', entry.uid, reroute(job, { ...job.place, leaveAt: undefined }), {
    is: 'routed',
    why: 'wait_ms',
  });
}

/** Moves a waiting job to the next step of its route, if its step lists the reason. */
export function leave(turn: Turn, entry: JobEntry, why: RouteReason): void {
  const place = entry.job.place && nextPlace(turn, entry, why, turn.now);
  if (place) turn.put('job', entry.uid, reroute(entry.job, place), { is: 'routed', why });
}
