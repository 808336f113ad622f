/**
 * Admission: accepts a job, refuses it, or finds the existing job that it repeats. The checks, in this order: the same
 * id, the same key, the lease, the model, the rules of governance, whether anything could run it, the session's budget, the size, the parent, what
 * it may cost, the jobs it waits for, a recent failure of the key, a full disk, a repeat whose job has just left memory
 * (its body was not stored), the limits, the gates, the capacity of the queue.
 */

import { OrchdError } from '../../model/errors.ts';
import { placeInLine } from '../../model/line.ts';
import { reroute } from '../../model/moves.ts';
import { type AskRecord, scoped, uidOf } from '../../model/records.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';
import { isTerminal, type JobState } from '../../model/states.ts';
import { checkDependencies, passOnKnownEnds } from '../attempts/dependencies.ts';
import { agentsAbove } from '../state/governed-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { beginBatch } from './batch.ts';
import { makeRoom } from './capacity.ts';
import { checkCost } from './cost.ts';
import { checkGates } from './gates.ts';
import { checkGovernance } from './governed.ts';
import { checkLease } from './lease.ts';
import { reserve } from './quota.ts';
import { ancestorsOf, resolveRoute } from './route.ts';
import { whyUnrunnable } from './runnable.ts';
import { beginSession, checkBudget } from './session.ts';
import type { Submission } from './submission.ts';

/** The deepest nesting of jobs. Every ask lists all its ancestors, so the bound also limits the size of records. */
const MAX_DEPTH = 32;

/** The result of a submission that was not refused. */
export type Admission =
  /** `warning`: nothing here could run it now. */
  | { readonly is: 'admitted'; readonly entry: JobEntry; readonly warning: string | undefined }
  /** A job with the same id or key exists in memory. */
  | { readonly is: 'duplicate'; readonly entry: JobEntry; readonly of: 'job_id' | 'key' }
  /** A job with the same id has ended and left memory. */
  | { readonly is: 'ended'; readonly uid: string; readonly id: string; readonly state: JobState };

/**
 * `begun`: the job belongs to work that has begun, and comes into a full queue too; how many such jobs there are is
 * bounded by the jobs that wait for them.
 */
export function submit(turn: Turn, requested: Submission, how: 'new' | 'begun' = 'new'): Admission {
  const uid = uidOf(requested.tenant, requested.id);
  // Only an id chosen by the caller (it has a `hash`) can exist already: generated ids are random.
  const sameId = requested.hash === undefined ? undefined : findSameId(turn, uid, requested);
  if (sameId) return sameId;
  const sameKey = findSameKey(turn, requested);
  if (sameKey) return { is: 'duplicate', entry: sameKey, of: 'key' };
  if (requested.lease) checkLease(turn, requested.tenant, requested.lease);
  const { submission, place } = resolveRoute(turn, requested);
  checkGovernance(turn, submission);
  const unrunnable = submission.unrunnable && whyUnrunnable(turn, submission);
  if (unrunnable && submission.unrunnable === 'refuse') {
    const { field, message } = unrunnable;
    throw new OrchdError('ADMISSION_REJECT', message, { reason: 'no_backend', field });
  }
  checkBudget(turn, submission);
  checkSize(turn, submission.payloadBytes);
  checkParent(turn, submission);
  checkCost(turn, submission);
  checkDependencies(turn, submission, submission.ends);
  const failure = findRecentFailure(turn, submission);
  if (turn.state.full) throw new OrchdError('STORE_FULL');
  if (!submission.bodyStored)
    throw new OrchdError('STORE_BUSY', 'the job it repeats has just ended; try again');
  const room = how === 'new' ? () => admit(turn, submission) : () => undefined;
  const reservation = reserve(turn, submission, room);
  if (failure) turn.put('failure', failure, null, submission.forceRetry ? 'force-retry' : 'expired');
  beginSession(turn, submission);
  beginBatch(turn, submission.tenant, submission.spec.batch);
  const entry = turn.put('ask', uid, askRecord(turn, submission), 'submit') as JobEntry;
  entry.reservation = reservation;
  if (place) turn.put('job', uid, reroute(entry.job, place), 'submit');
  passOnKnownEnds(turn, entry, submission.ends);
  return { is: 'admitted', entry, warning: unrunnable?.message };
}

/** Refuses a job that the gates or the full queue keep out. */
function admit(turn: Turn, submission: Submission): void {
  checkGates(turn, submission);
  makeRoom(turn, submission);
}

function findSameId(turn: Turn, uid: string, submission: Submission): Admission | undefined {
  const live = turn.state.jobs.get(uid);
  const ask = live?.ask ?? submission.known?.ask;
  if (!ask) return undefined;
  if (ask.hash !== submission.hash) {
    throw new OrchdError('JOB_CONFLICT', `job "${submission.id}" exists with another body`, {
      jobId: submission.id,
    });
  }
  if (live) return { is: 'duplicate', entry: live, of: 'job_id' };
  return submission.known && { is: 'ended', uid, id: submission.id, state: submission.known.job.state };
}

function findSameKey(turn: Turn, { tenant, spec: { key } }: Submission): JobEntry | undefined {
  return key === undefined ? undefined : turn.state.roster.byKey(tenant, key);
}

function checkSize(turn: Turn, bytes: number): void {
  const { maxPayloadBytes } = turn.settings;
  if (bytes <= maxPayloadBytes) return;
  throw new OrchdError(
    'INVALID_PARAMS',
    `the payload has ${bytes} bytes; at most ${maxPayloadBytes} are taken`,
    {
      field: 'payload',
    },
  );
}

function checkParent(turn: Turn, submission: Submission): void {
  if (submission.spec.parent_id === undefined) return;
  const parent = turn.state.jobs.get(uidOf(submission.tenant, submission.spec.parent_id));
  if (parent && !isTerminal(parent.job.state) && !parent.job.cancel) return checkDepth(parent);
  throw new OrchdError(
    'ADMISSION_REJECT',
    `the parent job "${submission.spec.parent_id}" is not running or waiting`,
    {
      reason: 'parent_ended',
      field: 'parent_id',
    },
  );
}

/** Refuses a job nested deeper than MAX_DEPTH. */
function checkDepth(parent: JobEntry): void {
  if ((parent.ask.ancestors?.length ?? 0) + 1 < MAX_DEPTH) return;
  const message = `at most ${MAX_DEPTH} jobs may stand below each other`;
  throw new OrchdError('INVALID_PARAMS', message, { field: 'parent_id' });
}

/** Refuses a key that failed for good; returns the id of a failure that has expired or is overridden, to delete it. */
function findRecentFailure(turn: Turn, submission: Submission): string | undefined {
  if (submission.spec.key === undefined) return undefined;
  const id = scoped(submission.tenant, submission.spec.key);
  const failure = turn.state.failures.get(id);
  if (!failure || failure.until <= turn.now || submission.forceRetry) return failure && id;
  turn.state.useFailure(id);
  throw new OrchdError(
    'ADMISSION_REJECT',
    `the key failed for good a short while ago: ${failure.error.message}`,
    {
      reason: 'recent_failure',
      retryAfterMs: failure.until - turn.now,
    },
  );
}

/** Builds the record field by field: spreading the objects would cost more than the rest of a submit. */
function askRecord(turn: Turn, from: Submission): AskRecord {
  const ask: AskRecord = {
    v: 2,
    id: from.id,
    tenant: from.tenant,
    n: turn.state.seq + 1,
    createdAt: turn.now,
    submittedBy: from.submittedBy,
    spec: from.spec,
    payload: from.payload,
    payloadBytes: from.payloadBytes,
    modelRef: from.modelRef,
    contextTokens: from.contextTokens,
    tokens: from.tokens,
    ancestors: ancestorsOf(turn, from),
    hash: from.hash,
    correlationId: from.correlationId,
  };
  const { maxOutput, messages, images, route, trace } = from;
  const line = ask.ancestors && lineOf(turn, ask.tenant, ask.ancestors);
  const above = ask.ancestors && agentsToKeep(turn, ask);
  const hasNoContent = maxOutput === undefined && messages === undefined && images === undefined;
  if (hasNoContent && route === undefined && trace === undefined && above === undefined)
    return line === undefined ? ask : { ...ask, line };
  // Absent fields are left out, as the store returns them, and take no room.
  return {
    ...ask,
    ...(maxOutput !== undefined && { maxOutput }),
    ...(messages !== undefined && { messages }),
    ...(images !== undefined && { images }),
    ...(route !== undefined && { route }),
    ...(trace !== undefined && { trace }),
    ...(line !== undefined && { line }),
    ...(above !== undefined && { agentsAbove: above }),
  };
}

/**
 * The rights of runs bound what is below them, also when they have ended. The calls of a run end before it; their ids begin
 * with its own.
 */
function agentsToKeep({ state }: Turn, ask: AskRecord): readonly string[] | undefined {
  const { id, tenant, ancestors = [], spec } = ask;
  const parent = ancestors.at(-1) as string;
  const isCall = id.startsWith(`${parent}.`) && spec.type !== RUN_TYPE;
  if (isCall && state.jobs.get(uidOf(tenant, parent))?.ask.spec.type === RUN_TYPE) return undefined;
  const above = agentsAbove(state, ask);
  return above.length === 0 ? undefined : above;
}

/** The place in line of the job at the top, or of the nearest ancestor if that one has ended. */
function lineOf(turn: Turn, tenant: string, ancestors: readonly string[]): number | undefined {
  const parent = turn.state.jobs.get(uidOf(tenant, ancestors.at(-1) as string));
  return parent && placeInLine(parent.ask);
}
