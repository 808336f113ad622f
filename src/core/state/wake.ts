/**
 * When time alone changes what should happen to a job. One instant per job: the earliest of them.
 */

import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from './job-entry.ts';

const NEVER = Number.POSITIVE_INFINITY;

export function nextWake(entry: JobEntry, now: number, cancelDeadlineMs: number): number {
  const { job, ask, open } = entry;
  if (isTerminal(job.state)) return NEVER;
  let wakeAt = entry.deadlineAt ?? NEVER;
  if (job.state === 'queued') {
    return entry.waitsUntil > now ? Math.min(wakeAt, entry.waitsUntil) : wakeAt;
  }
  // Once a kill is ordered it is waited for, but not beyond the deadline of the job.
  if (open?.kill) {
    const patience = killPatience(entry, cancelDeadlineMs);
    return job.cancel || open.kill.why === 'deadline' ? patience : Math.min(patience, wakeAt);
  }
  if (job.startedAt !== undefined && ask.spec.timeout_ms !== undefined && job.state === 'running') {
    wakeAt = Math.min(wakeAt, job.startedAt + ask.spec.timeout_ms);
  }
  return wakeAt;
}

function killPatience(entry: JobEntry, cancelDeadlineMs: number): number {
  if (entry.job.cancel) return entry.job.cancel.at + cancelDeadlineMs;
  const { open } = entry;
  if (!open?.kill || (open.state === 'unknown' && open.kill.why !== 'deadline')) return NEVER;
  // It was turned away: what is missing is only the certainty that no copy of the offer arrives later.
  if (open.kill.why === 'busy' || open.kill.why === 'refused') return NEVER;
  return open.kill.at + cancelDeadlineMs;
}
