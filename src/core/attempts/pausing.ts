/**
 * Pausing a job: neither it nor any job below it starts an attempt until it is resumed. What runs goes on to its end, and
 * its outcome is kept; a waiting job wakes, and then stands in the queue without starting. Deadlines are not moved.
 */
import { OrchdError } from '../../model/errors.ts';
import { pauseJob, resumeJob } from '../../model/moves.ts';
import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';

/** Jobs that one step moves out of their lanes, or back, after a pause has begun or ended; the next tick goes on. */
export const SETTLED_PER_STEP = 1000;

/** Idempotent: a second pause keeps who paused the job first, and when. */
export function pause(turn: Turn, uid: string, by: string): JobEntry {
  const entry = liveJob(turn, uid);
  if (entry.job.cancel) throw new OrchdError('ILLEGAL_STATE', `job "${entry.ask.id}" is being cancelled`);
  if (!entry.job.paused) turn.put('job', uid, pauseJob(entry.job, { at: turn.now, by }), { is: 'pause', by });
  return entry;
}

/** Idempotent. */
export function resume(turn: Turn, uid: string, by: string): JobEntry {
  const entry = liveJob(turn, uid);
  if (entry.job.paused) turn.put('job', uid, resumeJob(entry.job), { is: 'resume', by });
  return entry;
}

/** Called in every step in which jobs below paused or resumed ones are still in the wrong place. */
export function settlePauses({ state, now }: Turn): void {
  for (let left = SETTLED_PER_STEP; left > 0; left--) {
    const entry = state.pauses.next();
    if (!entry) return;
    state.settle(entry, now);
  }
}

function liveJob({ state }: Turn, uid: string): JobEntry {
  const entry = state.jobs.get(uid);
  if (!entry) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
  if (!isTerminal(entry.job.state)) return entry;
  throw new OrchdError('ILLEGAL_STATE', `job "${entry.ask.id}" has ended: it is ${entry.job.state}`);
}
