/** The commands that people give for jobs: cancel, redrive, resolve. */

import type { Body } from '../../model/body.ts';
import type { Cause } from '../../model/causes.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import { redrive, requestCancel, succeed, unclaim } from '../../model/moves.ts';
import { tokenOf } from '../../model/records.ts';
import { RUN_JOB_TYPES } from '../../model/run-jobs.ts';
import { isTerminal } from '../../model/states.ts';
import type { EndedJob } from '../ports/store.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { type KnownEnds, recheckDependencies } from './dependencies.ts';
import { cancelJob, endBadly } from './ending.ts';
import { abandonAttempt, kill } from './progress.ts';

export type ResolveAs =
  | { readonly as: 'retry' }
  | { readonly as: 'failed'; readonly message?: string }
  | { readonly as: 'succeeded'; readonly result: Body };

/** The most jobs that one command cancels in a step, which bounds its time; the rest of them is left to the next. */
export const MAX_CANCELLED_PER_STEP = 1000;

export interface CancelProgress {
  readonly entry: JobEntry | undefined;
  /** More descendants are to be cancelled: the command must be repeated. */
  readonly isPartial: boolean;
}

/** Cancels a job and its live descendants, even if the job itself has ended and left memory. Idempotent. */
export function cancel(turn: Turn, uid: string, by: string): CancelProgress {
  const entry = turn.state.jobs.get(uid);
  const descendants = turn.state.roster.descendants(uid);
  if (!entry && descendants.size === 0) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
  if (entry) cancelOne(turn, entry, by);
  // The oldest first: a job whose parent is cancelled gets no children.
  const { jobs, isAll } = someToCancel(descendants, 'oldest');
  for (const descendant of jobs) cancelOne(turn, descendant, by);
  return { entry, isPartial: !isAll };
}

/** Up to MAX_CANCELLED_PER_STEP jobs that are not being cancelled yet, as a copy: cancelled jobs leave the index. */
export function someToCancel(
  jobs: Iterable<JobEntry>,
  first: 'oldest' | 'newest',
): { readonly jobs: readonly JobEntry[]; readonly isAll: boolean } {
  const found: JobEntry[] = [];
  for (const entry of jobs) {
    if (isTerminal(entry.job.state) || entry.job.cancel) continue;
    found.push(entry);
    if (first === 'oldest' && found.length > MAX_CANCELLED_PER_STEP) break;
  }
  const isAll = found.length <= MAX_CANCELLED_PER_STEP;
  if (isAll) return { jobs: found, isAll };
  return {
    jobs: first === 'oldest' ? found.slice(0, MAX_CANCELLED_PER_STEP) : found.slice(-MAX_CANCELLED_PER_STEP),
    isAll,
  };
}

export function cancelOne(turn: Turn, entry: JobEntry, by: string): void {
  if (isTerminal(entry.job.state) || entry.job.cancel) return;
  turn.put('job', entry.uid, requestCancel(entry.job, { at: turn.now, by }), 'cancel');
  if (entry.open) kill(turn, entry, 'cancel');
  else cancelJob(turn, entry);
}

/** Queues a dead job again: its tries start at 0, its attempt numbers continue. */
export function redriveJob(
  turn: Turn,
  uid: string,
  by: string,
  known: EndedJob | undefined,
  ends?: KnownEnds,
): JobEntry {
  const live = turn.state.jobs.get(uid);
  const job = live?.job ?? known?.job;
  const ask = live?.ask ?? known?.ask;
  if (!job || !ask) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
  if (job.state !== 'dead') {
    throw new OrchdError('ILLEGAL_STATE', `only a dead job can be redriven; "${ask.id}" is ${job.state}`);
  }
  if (RUN_JOB_TYPES.includes(ask.spec.type)) {
    throw new OrchdError('ILLEGAL_STATE', `"${ask.id}" belongs to a run, which has gone on without it`);
  }
  if (live?.open) {
    throw new OrchdError('ILLEGAL_STATE', `attempt ${live.open.n} of "${ask.id}" has not ended yet`);
  }
  const holder = ask.spec.key === undefined ? undefined : turn.state.roster.byKey(ask.tenant, ask.spec.key);
  if (holder) {
    throw new OrchdError('KEY_CONFLICT', `job "${holder.ask.id}" has the key now`, { jobId: holder.ask.id });
  }
  if (job.attempt === 0) recheckDependencies(turn, ask, ends);
  if (!live) {
    // The job had left memory: put its ask and attempts back unchanged, then move the job record.
    turn.put('ask', uid, ask, 'redrive');
    for (const attempt of known?.attempts ?? []) {
      turn.put('attempt', tokenOf(uid, attempt.n), attempt, 'redrive');
    }
  }
  turn.put('job', uid, redrive(job, turn.now), { is: 'redrive', by });
  const entry = turn.state.jobs.get(uid) as JobEntry;
  return entry;
}

/**
 * An operator decides the outcome of a stale job. A job that has already ended keeps its state; only its open attempt is
 * closed.
 */
export function resolve(turn: Turn, uid: string, by: string, how: ResolveAs): JobEntry {
  const entry = turn.state.jobs.get(uid);
  if (!entry) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
  settle(turn, entry, by, how);
  return entry;
}

function settle(turn: Turn, entry: JobEntry, by: string, how: ResolveAs): void {
  if (isTerminal(entry.job.state) && entry.open) {
    return abandonAttempt(turn, entry, { is: 'resolve', as: how.as, by });
  }
  if (entry.job.state !== 'stale') {
    throw new OrchdError(
      'ILLEGAL_STATE',
      `only a job with an unknown outcome can be resolved; "${entry.ask.id}" is ${entry.job.state}`,
    );
  }
  const cause: Cause = { is: 'resolve', as: how.as, by };
  abandonAttempt(turn, entry, cause);
  if (entry.job.cancel && how.as !== 'succeeded') return cancelJob(turn, entry);
  switch (how.as) {
    case 'retry':
      turn.put('job', entry.uid, unclaim(entry.job), cause);
      break;
    case 'failed': {
      const message = how.message ?? 'settled as failed by an operator';
      endBadly(turn, entry, { ...errorInfo('UNKNOWN_OUTCOME', message), retriable: false }, undefined, false);
      break;
    }
    case 'succeeded':
      turn.put('job', entry.uid, succeed(entry.job, turn.now, how.result), cause);
      break;
  }
}
