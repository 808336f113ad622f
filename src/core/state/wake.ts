/**
 * When time alone changes what should happen to a job. One instant per job: the earliest of them.
 */

import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from './job-entry.ts';

const NEVER = Number.POSITIVE_INFINITY;

export function nextWake(entry: JobEntry, now: number, cancelDeadlineMs: number): number {
  const { rec, ask, open } = entry;
  if (isTerminal(rec.state)) return NEVER;
  let wakeAt = entry.deadlineAt ?? NEVER;
  if (rec.state === 'queued') {
    return entry.waitsUntil > now ? Math.min(wakeAt, entry.waitsUntil) : wakeAt;
  }
  // Once a kill is ordered it is waited for, but not beyond the deadline of the job.
  if (open?.kill) {
    const patience = killPatience(entry, cancelDeadlineMs);
    return rec.cancel || open.kill.why === 'deadline' ? patience : Math.min(patience, wakeAt);
  }
  if (rec.startedAt !== undefined && ask.timeoutMs !== undefined && rec.state === 'running') {
    wakeAt = Math.min(wakeAt, rec.startedAt + ask.timeoutMs);
  }
  return wakeAt;
}

function killPatience(entry: JobEntry, cancelDeadlineMs: number): number {
  if (entry.rec.cancel) return entry.rec.cancel.at + cancelDeadlineMs;
  const { open } = entry;
  if (!open?.kill || (open.state === 'unknown' && open.kill.why !== 'deadline')) return NEVER;
  // It was turned away: what is missing is only the certainty that no copy of the offer arrives later.
  if (open.kill.why === 'busy' || open.kill.why === 'refused') return NEVER;
  return open.kill.at + cancelDeadlineMs;
}
