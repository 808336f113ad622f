/** The commands that people give for jobs: cancel, redrive, resolve. */

import type { Body } from '../../model/body.ts';
import type { Cause } from '../../model/causes.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../../model/errors.ts';
import { redrive, requestCancel, succeed, unclaim } from '../../model/moves.ts';
import { type AskRecord, tokenOf, uidOf } from '../../model/records.ts';
import { isModelCall, RUN_JOB_TYPES, RUN_TYPE } from '../../model/run-jobs.ts';
import { isTerminal } from '../../model/states.ts';
import type { EndedJob } from '../ports/store.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { type KnownEnds, recheckDependencies } from './dependencies.ts';
import { cancelJob, endBadly, mayBeErased } from './ending.ts';
import { abandonAttempt, kill } from './progress.ts';

export type ResolveAs =
  | { readonly as: 'retry' }
  | { readonly as: 'failed'; readonly error?: ErrorInfo }
  | { readonly as: 'succeeded'; readonly result: Body };

const SETTLED_AS_FAILED = errorInfo('UNKNOWN_OUTCOME', 'settled as failed by an operator');

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

/** Up to `atMost` jobs that are not being cancelled yet, as a copy: cancelled jobs leave the index. */
export function someToCancel(
  jobs: Iterable<JobEntry>,
  first: 'oldest' | 'newest',
  atMost = MAX_CANCELLED_PER_STEP,
): { readonly jobs: readonly JobEntry[]; readonly isAll: boolean } {
  const found: JobEntry[] = [];
  for (const entry of jobs) {
    if (isTerminal(entry.job.state) || entry.job.cancel) continue;
    found.push(entry);
    if (first === 'oldest' && found.length > atMost) break;
  }
  const isAll = found.length <= atMost;
  if (isAll) return { jobs: found, isAll };
  return {
    jobs: first === 'oldest' ? found.slice(0, atMost) : found.slice(-atMost),
    isAll,
  };
}

export function cancelOne(turn: Turn, entry: JobEntry, by: string): void {
  if (isTerminal(entry.job.state) || entry.job.cancel) return;
  turn.put('job', entry.uid, requestCancel(entry.job, { at: turn.now, by }), 'cancel');
  if (entry.open) kill(turn, entry, 'cancel');
  else cancelJob(turn, entry);
}

/** What the history says about a job that is to be redriven. */
export interface RedriveLookup {
  /** The job, if it is no longer in memory. */
  readonly known: EndedJob | undefined;
  /** Its parent, if that is no longer in memory. */
  readonly parent?: EndedJob | undefined;
  /** How jobs that it waits for, and that are no longer in memory, have ended. */
  readonly ends?: KnownEnds | undefined;
}

/** Queues a dead job again: its tries start at 0, its attempt numbers continue. */
export function redriveJob(
  turn: Turn,
  uid: string,
  by: string,
  { known, parent, ends }: RedriveLookup,
): JobEntry {
  const live = turn.state.jobs.get(uid);
  const job = live?.job ?? known?.job;
  const ask = live?.ask ?? known?.ask;
  if (!job || !ask) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
  if (job.state !== 'dead') {
    throw new OrchdError('ILLEGAL_STATE', `only a dead job can be redriven; "${ask.id}" is ${job.state}`);
  }
  if (RUN_JOB_TYPES.includes(ask.spec.type) || isAbandonedCall(turn, ask, parent)) {
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
 * Whether the job is a call of a model or of an agent by a run that does not wait for it: nobody would use the answer, and
 * a run below another one would have neither its budget nor its rights any more.
 */
function isAbandonedCall({ state }: Turn, { id, tenant, spec }: AskRecord, ended?: EndedJob): boolean {
  const { parent_id: runId } = spec;
  const isCall =
    runId !== undefined && (isModelCall(runId, id) || (spec.type === RUN_TYPE && id.startsWith(`${runId}.`)));
  if (!isCall) return false;
  const run = state.jobs.get(uidOf(tenant, runId)) ?? ended;
  if (run?.ask.spec.type !== RUN_TYPE) return false;
  return run.job.state !== 'waiting' || !run.job.wait?.children.includes(id);
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
  if (entry.job.cancel && (how.as !== 'succeeded' || mayBeErased(entry))) return cancelJob(turn, entry);
  switch (how.as) {
    case 'retry':
      turn.put('job', entry.uid, unclaim(entry.job), cause);
      break;
    case 'failed':
      endBadly(turn, entry, { ...(how.error ?? SETTLED_AS_FAILED), retriable: false }, undefined, false);
      break;
    case 'succeeded':
      turn.put('job', entry.uid, succeed(entry.job, turn.now, how.result), cause);
      break;
  }
}
