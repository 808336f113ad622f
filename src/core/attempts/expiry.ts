/** Handles the timers of jobs: waits that end, deadlines, timeouts, and kills that were not confirmed in time. */
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { cancelJob, expire } from './ending.ts';
import { cancelOne, someToCancel } from './operator-commands.ts';
import { kill, lost, timedOut } from './progress.ts';
import { leaveAfterWait } from './rerouting.ts';
import { isPastDeadline, wakeJob } from './waiting.ts';

/**
 * Timers handled in one tick, and jobs cancelled with those below which they are: a few milliseconds of work. `nextWake`
 * then is in the past and brings the next tick.
 */
const WAKES_PER_TICK = 2000;
/** No job is claimed for so long, or until the next tick, while timers are left over: it may be past its deadline. */
const CLAIM_PAUSE_MS = 1000;

export function expireJobs(turn: Turn): void {
  const { timers } = turn.state;
  turn.queue.claimsFrom = 0;
  let left = WAKES_PER_TICK;
  for (let entry = timers.peek(); entry && entry.wakeAt <= turn.now; entry = timers.peek()) {
    if (left <= 0) {
      turn.queue.claimsFrom = turn.now + CLAIM_PAUSE_MS;
      return;
    }
    if (entry.job.state === 'waiting' && isPastDeadline(turn, entry))
      left -= expireWaiting(turn, entry, left);
    else wake(turn, entry);
    left--;
    turn.state.settle(entry, turn.now);
  }
}

function wake(turn: Turn, entry: JobEntry): void {
  const { job, open } = entry;
  const pastDeadline = isPastDeadline(turn, entry);
  if (job.state === 'queued') {
    if (pastDeadline) expire(turn, entry);
    else if ((job.place?.leaveAt ?? Number.POSITIVE_INFINITY) <= turn.now) leaveAfterWait(turn, entry);
    return;
  }
  if (job.state === 'waiting') return wakeJob(turn, entry, 'time');
  if (!open) return;
  if (open.kill) return giveUpWaiting(turn, entry, pastDeadline);
  kill(turn, entry, pastDeadline ? 'deadline' : 'timeout');
}

/**
 * The jobs that it waits for were for it alone: nobody wants their results any more. At most `atMost` of them are
 * cancelled. The job itself ends with the last of them, so that the rest follows from its record, also after a crash.
 * Returns how many were cancelled.
 */
function expireWaiting(turn: Turn, entry: JobEntry, atMost: number): number {
  const { jobs, isAll } = someToCancel(turn.state.roster.descendants(entry.uid), 'oldest', atMost);
  for (const below of jobs) cancelOne(turn, below, 'deadline');
  if (isAll) expire(turn, entry);
  return jobs.length;
}

/** A kill was not confirmed in time: the job moves on. Of an ended job the attempt keeps its slot until its end is confirmed. */
function giveUpWaiting(turn: Turn, entry: JobEntry, pastDeadline: boolean): void {
  if (entry.job.cancel) cancelJob(turn, entry);
  else if (pastDeadline) expire(turn, entry);
  else if (entry.open?.kill?.why === 'timeout') timedOut(turn, entry);
  else lost(turn, entry);
}
