/**
 * Admission: accept, refuse, or answer with the job that is already there. In this order:
 * the same id, the same key, the model, what the session may use, a recent failure of the key, the capacity.
 */
import { OrchdError } from '../../model/errors.ts';
import { type AskRecord, scoped, uidOf } from '../../model/records.ts';
import { isTerminal, type JobState } from '../../model/states.ts';
import type { EndedJob, Submission } from '../events.ts';
import { jobPosition, predictStartMs } from '../scheduling/predict.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { resolveModel } from '../workers/catalog.ts';
import { noteArrival, startHints } from '../workers/forecast.ts';
import { makeRoom } from './capacity.ts';
import { reserve } from './quota.ts';
import { checkBudget, noteTurn } from './session.ts';

/** A job names all jobs above it. */
const MAX_ANCESTORS = 32;

export interface SubmitAnswer {
  readonly uid: string;
  readonly id: string;
  readonly status: JobState;
  readonly queuePosition: number | undefined;
  readonly predictedStartMs: number | undefined;
  /** Which of the caller's names led to a job that was there before. */
  readonly duplicateOf: 'job_id' | 'key' | undefined;
}

export function submit(turn: Turn, asked: Submission): SubmitAnswer {
  const uid = uidOf(asked.tenant, asked.id);
  // Only a caller's own id can be there already: ours are made by chance.
  const sameId = asked.hash === undefined ? undefined : findSameId(turn, uid, asked);
  if (sameId) return sameId;
  const sameKey = findSameKey(turn, asked);
  if (sameKey) return sameKey;
  const submission = resolveModel(turn, asked);
  checkBudget(turn, submission);
  checkSize(turn, submission.payloadBytes);
  checkParent(turn, submission);
  const failure = findRecentFailure(turn, submission);
  if (turn.state.full) throw new OrchdError('STORE_FULL');
  if (!submission.bodyStored)
    throw new OrchdError('STORE_BUSY', 'the job it repeats has just ended; try again');
  const reservation = reserve(turn, submission, () => makeRoom(turn, submission));
  if (failure) turn.put('failure', failure, null, submission.forceRetry ? 'force-retry' : 'expired');
  noteTurn(turn, submission);
  const entry = turn.put('ask', uid, askRecord(turn, submission), 'submit') as JobEntry;
  entry.reservation = reservation;
  noteArrival(turn, submission);
  return answer(turn, entry, undefined);
}

function findSameId(turn: Turn, uid: string, submission: Submission): SubmitAnswer | undefined {
  const live = turn.state.jobs.get(uid);
  const known: Pick<EndedJob, 'ask' | 'job'> | undefined = live
    ? { ask: live.ask, job: live.job }
    : submission.known;
  if (!known) return undefined;
  if (known.ask.hash !== submission.hash) {
    throw new OrchdError('JOB_CONFLICT', `job "${submission.id}" exists with another body`, {
      jobId: submission.id,
    });
  }
  if (live) return answer(turn, live, 'job_id');
  return {
    uid,
    id: submission.id,
    status: known.job.state,
    queuePosition: undefined,
    predictedStartMs: undefined,
    duplicateOf: 'job_id',
  };
}

function findSameKey(turn: Turn, submission: Submission): SubmitAnswer | undefined {
  if (submission.spec.key === undefined) return undefined;
  const live = turn.state.roster.byKey(submission.tenant, submission.spec.key);
  return live && answer(turn, live, 'key');
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

/** Every job names all that stand above it: without a bound a chain would write more with each link. */
function checkDepth(parent: JobEntry): void {
  if ((parent.ask.ancestors?.length ?? 0) + 1 < MAX_ANCESTORS) return;
  const message = `at most ${MAX_ANCESTORS} jobs may stand below each other`;
  throw new OrchdError('INVALID_PARAMS', message, { field: 'parent_id' });
}

/** Refuses a key that failed for good; returns the entry of the failure cache that no longer holds. */
function findRecentFailure(turn: Turn, submission: Submission): string | undefined {
  if (submission.spec.key === undefined) return undefined;
  const id = scoped(submission.tenant, submission.spec.key);
  const failure = turn.state.failures.get(id);
  if (!failure || failure.until <= turn.now || submission.forceRetry) return failure && id;
  throw new OrchdError(
    'ADMISSION_REJECT',
    `the key failed for good a short while ago: ${failure.error.message}`,
    {
      reason: 'recent_failure',
      retryAfterMs: failure.until - turn.now,
    },
  );
}

/** Field by field: copies with spread cost more than the rest of a submit. */
function askRecord(turn: Turn, from: Submission): AskRecord {
  const { parent_id } = from.spec;
  const parent = parent_id === undefined ? undefined : turn.state.jobs.get(uidOf(from.tenant, parent_id));
  return {
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
    ancestors: parent && [...(parent.ask.ancestors ?? []), parent.ask.id],
    hash: from.hash,
    correlationId: from.correlationId,
  };
}

export function answer(turn: Turn, entry: JobEntry, duplicateOf: 'job_id' | 'key' | undefined): SubmitAnswer {
  const position = jobPosition(entry);
  return {
    uid: entry.uid,
    id: entry.ask.id,
    status: entry.job.state,
    queuePosition: position,
    predictedStartMs: predictStartMs(entry, position, turn.now, startHints(turn.state, entry.ask)),
    duplicateOf,
  };
}
