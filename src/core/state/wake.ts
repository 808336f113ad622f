/**
 * The next instant at which time alone changes what should happen to a job: the end of a wait, the timeout, the
 * deadline, or the end of the wait for a kill to be confirmed.
 */

import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from './job-entry.ts';

const NEVER = Number.POSITIVE_INFINITY;

export function nextWake(entry: JobEntry, now: number, cancelDeadlineMs: number, aheadMs = 0): number {
  const { job, ask, open } = entry;
  if (isTerminal(job.state)) return NEVER;
  let wakeAt = entry.deadlineAt ?? NEVER;
  if (job.state === 'queued') {
    wakeAt = Math.min(wakeAt, job.place?.leaveAt ?? NEVER);
    return entry.waits(now, aheadMs) ? Math.min(wakeAt, entry.waitsUntil) : wakeAt;
  }
  if (job.state === 'waiting') return Math.min(wakeAt, job.wait?.until ?? NEVER);
  // An ordered kill is waited for, but not beyond the deadline of the job.
  if (open?.kill) {
    const killBy = killDeadline(entry, cancelDeadlineMs);
    return job.cancel || open.kill.why === 'deadline' ? killBy : Math.min(killBy, wakeAt);
  }
  if (job.startedAt !== undefined && ask.spec.timeout_ms !== undefined && job.state === 'running') {
    wakeAt = Math.min(wakeAt, job.startedAt + ask.spec.timeout_ms);
  }
  return wakeAt;
}

function killDeadline(entry: JobEntry, cancelDeadlineMs: number): number {
  if (entry.job.cancel) return entry.job.cancel.at + cancelDeadlineMs;
  const { open } = entry;
  if (!open?.kill || (open.state === 'unknown' && open.kill.why !== 'deadline')) return NEVER;
  // The offer was turned away, so nothing runs: the kill only makes sure that no late copy of the offer is accepted.
  if (open.kill.why === 'busy' || open.kill.why === 'refused') return NEVER;
  return open.kill.at + cancelDeadlineMs;
}
