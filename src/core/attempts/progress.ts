/**
 * Handles the reports of executors about attempts. Reports may be late, repeated or about closed attempts: only an open
 * attempt is changed by them. Before a job that was not run goes back to the queue its token is killed
 * (docs/decisions/0005), in a way that spares running work (docs/decisions/0012).
 */

import type { Cause, KillWhy } from '../../model/causes.ts';
import { type ErrorInfo, errorInfo } from '../../model/errors.ts';
import { abandon, accept, confirm, lose, loseAttempt, orderKill, start, unclaim } from '../../model/moves.ts';
import type { AttemptRecord, OnUnknown } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { billOfAbandoned } from './bill.ts';
import {
  boundedAcceptance,
  boundedWait,
  cancelJob,
  endAttempt,
  endBadly,
  expire,
  keptError,
  timeoutError,
} from './ending.ts';
import type { Finding, Forgotten, KillAnswer, OfferAnswer } from './reports.ts';

/** `acceptedAt`: when the executor accepted the attempt, if that is not now. */
export function offered(turn: Turn, entry: JobEntry, answer: OfferAnswer, acceptedAt = turn.now): void {
  const attempt = entry.open;
  if (attempt?.state !== 'intended') return;
  switch (answer.is) {
    case 'accepted':
      return accepted(turn, entry, boundedAcceptance(turn, attempt, acceptedAt));
    case 'busy':
      turn.fleet.block(attempt.backend, turn.now + busyPause(turn, answer.retryAfterMs), answer.why);
      // A copy of the offer may still be under way, and be accepted: only a tombstone rules that out.
      return kill(turn, entry, 'busy');
    case 'refused':
      return kill(turn, entry, 'refused', answer.error);
    case 'conflict':
      return tokenTaken(turn, entry);
    case 'unsent':
      return takeBack(turn, entry, 'not-run');
    case 'unknown':
      return lost(turn, entry);
  }
}

const busyPause = (turn: Turn, ms: number | undefined): number =>
  ms === undefined ? turn.settings.busyPauseMs : boundedWait(ms);

function accepted(turn: Turn, entry: JobEntry, at = turn.now): void {
  const attempt = entry.open;
  if (!attempt) return;
  const { token } = entry;
  turn.put('attempt', token, accept(attempt, at, turn.epoch), 'accepted');
  const { state } = entry.job;
  if (state === 'claimed' || state === 'stale') turn.put('job', entry.uid, start(entry.job, at), 'started');
}

/**
 * The executor has run another body under this token, so that this attempt has not run and never will: the store is an
 * older copy. The job gets its next attempt number; the pause bounds how fast it goes through numbers that are taken.
 */
function tokenTaken(turn: Turn, entry: JobEntry): void {
  const attempt = entry.open;
  if (!attempt) return;
  turn.fleet.block(attempt.backend, turn.now + turn.settings.busyPauseMs);
  takeBack(turn, entry, 'token-taken');
}

/** Puts a job back into the queue whose attempt has certainly not run, and never will. */
export function takeBack(turn: Turn, entry: JobEntry, cause: 'token-taken' | 'not-run' | 'returned'): void {
  const why = entry.open?.kill?.why;
  abandonAttempt(turn, entry, cause);
  if (isTerminal(entry.job.state)) return;
  if (entry.job.cancel) return cancelJob(turn, entry);
  if (why === 'deadline') return expire(turn, entry);
  turn.put('job', entry.uid, unclaim(entry.job), cause);
}

/** Orders the kill of an open attempt. An existing order is only replaced by a cancel. */
export function kill(turn: Turn, entry: JobEntry, why: KillWhy, error?: ErrorInfo): void {
  const attempt = entry.open;
  if (!attempt || (attempt.kill && why !== 'cancel')) return;
  const order = { why, at: turn.now };
  turn.put('attempt', entry.token, orderKill(attempt, order, turn.epoch, error), { is: 'kill', why });
  // Nobody has claimed it, and nobody can from now on.
  if (attempt.isPulled && attempt.state === 'intended') killed(turn, entry, { is: 'tombstoned' });
  // Its consumer is gone, and nobody else could carry out the order.
  else if (attempt.isPulled && attempt.isGone && why !== 'timeout') killed(turn, entry, { is: 'forgotten' });
}

export function killed(turn: Turn, entry: JobEntry, answer: KillAnswer): void {
  const attempt = entry.open;
  if (!attempt?.kill) return;
  if (answer.is === 'ended') return endAttempt(turn, entry, answer.outcome);
  if (answer.is === 'running') return mayBeSpared(entry) ? spare(turn, entry) : undefined;
  if (answer.is === 'conflict') return tokenTaken(turn, entry);
  // An executor that accepted the token and now reports it as unknown has lost its memory: that proves nothing.
  const certain = answer.is === 'tombstoned' && attempt.acceptedAt === undefined;
  const { why } = attempt.kill;
  // For these reasons the next step is the same whether the attempt ran or not.
  const settled = why === 'busy' || why === 'refused' || why === 'deadline';
  if (!certain && !entry.job.cancel && !settled && !isTerminal(entry.job.state))
    return forgotten(turn, entry, answer.is === 'forgotten' ? answer : {});
  abandonAttempt(turn, entry, certain ? 'tombstoned' : 'given-up');
  if (isTerminal(entry.job.state)) return;
  if (entry.job.cancel) return cancelJob(turn, entry);
  if (why === 'deadline') return expire(turn, entry);
  if (why === 'refused' && attempt.error) return endBadly(turn, entry, attempt.error, undefined, false);
  // A timeout uses up a try; otherwise the job goes back to the queue with the try unused.
  if (why === 'timeout') return endBadly(turn, entry, timeoutError(entry), undefined, false);
  turn.put('job', entry.uid, unclaim(entry.job), certain ? 'not-run' : 'given-up');
}

/** Whether a kill order only makes sure that nothing runs, so that an attempt found running may continue. */
export function mayBeSpared({ open, job }: JobEntry): boolean {
  const why = open?.kill?.why;
  return (why === 'lost' || why === 'busy' || why === 'refused') && !job.cancel && !isTerminal(job.state);
}

/** The attempt runs after all (a late start, or a copy of the offer): drop the kill order, or its work would be lost. */
function spare(turn: Turn, entry: JobEntry): void {
  const attempt = entry.open;
  if (!attempt) return;
  const spared = { ...attempt, kill: undefined, error: undefined, epoch: turn.epoch };
  if (attempt.state === 'accepted') turn.put('attempt', entry.token, spared, 're-attached');
  else {
    turn.put('attempt', entry.token, spared, 'spared');
    accepted(turn, entry);
  }
}

/** Contact to the executor was lost: the attempt becomes `unknown` and its job `stale`. */
export function lost(turn: Turn, entry: JobEntry): void {
  const attempt = entry.open;
  if (!attempt || attempt.state === 'unknown') return;
  turn.put('attempt', entry.token, loseAttempt(attempt, turn.epoch), 'lost');
  const { state } = entry.job;
  if (state === 'claimed' || state === 'running') turn.put('job', entry.uid, lose(entry.job), 'lost');
}

/** Handles the result of an inspection. */
export function found(turn: Turn, entry: JobEntry, finding: Finding): void {
  const attempt = entry.open;
  if (!attempt) return;
  switch (finding.is) {
    case 'running':
      if (attempt.state === 'accepted') confirmRunning(turn, entry);
      else accepted(turn, entry);
      return;
    case 'ended':
      return endAttempt(turn, entry, finding.outcome);
    case 'absent':
      // The attempt has not run so far; the kill leaves a tombstone, so that it never will.
      return kill(turn, entry, 'lost');
    case 'conflict':
      return tokenTaken(turn, entry);
    case 'forgotten':
      return foundForgotten(turn, entry, finding);
  }
}

/**
 * An offer that is still on its way must not start once the job runs elsewhere or has failed, so its token is killed
 * first (docs/decisions/0005). One that is held has no other attempt: should it start, it is found running.
 */
function foundForgotten(turn: Turn, entry: JobEntry, finding: Forgotten): void {
  // With a kill order, the answer to the kill decides.
  if (entry.open?.kill) return;
  if (finding.mayArrive && unknownPolicy(turn, entry) !== 'hold') kill(turn, entry, 'lost');
  else forgotten(turn, entry, finding);
}

function confirmRunning(turn: Turn, entry: JobEntry): void {
  const attempt = entry.open;
  if (!attempt || attempt.epoch === turn.epoch) return;
  turn.put('attempt', entry.token, confirm(attempt, turn.epoch), 're-attached');
}

const CANNOT_SAY = errorInfo('UNKNOWN_OUTCOME', 'the backend cannot say whether it ran');

/**
 * The executor cannot tell whether the attempt did its work, or has died before it could: the `on_unknown` policy of the
 * job decides.
 */
export function forgotten(
  turn: Turn,
  entry: JobEntry,
  { error: known = CANNOT_SAY, isGone = false }: Pick<Forgotten, 'error' | 'isGone'>,
): void {
  lost(turn, entry);
  confirmUnknown(turn, entry, isGone);
  const policy = isTerminal(entry.job.state) ? 'fail' : unknownPolicy(turn, entry);
  if (policy === 'hold') return;
  const isRepeatable = turn.fleet.backends.get(entry.open?.backend ?? '')?.info.isRepeatable === true;
  const error = keptError(entry, known);
  abandonAttempt(turn, entry, { is: 'on-unknown', policy }, error);
  if (isTerminal(entry.job.state)) return;
  if (entry.job.cancel) return cancelJob(turn, entry);
  if (policy === 'retry' && isRepeatable) {
    turn.put('job', entry.uid, unclaim(entry.job), { is: 'on-unknown', policy });
    return;
  }
  endBadly(turn, entry, { ...error, retriable: policy === 'retry' }, undefined, false);
}

/**
 * A try has run longer than its timeout, and its executor did not confirm in time that it has ended it. Nobody waits any
 * longer: the job ends here, whatever its tries, since another try must not begin while this one may run.
 */
export function timedOut(turn: Turn, entry: JobEntry): void {
  lost(turn, entry);
  endBadly(turn, entry, { ...timeoutError(entry), retriable: false }, undefined, false);
}

/** Drops the kill order, which the executor has answered, and takes over the attempt into this epoch. */
function confirmUnknown(turn: Turn, entry: JobEntry, isGone: boolean): void {
  const attempt = entry.open;
  const freesSlot = isGone && !attempt?.isGone;
  if (!attempt || (attempt.epoch === turn.epoch && !attempt.kill && !freesSlot)) return;
  const after: AttemptRecord = { ...attempt, epoch: turn.epoch, kill: undefined, ...(isGone && { isGone }) };
  turn.put('attempt', entry.token, after, 'forgotten');
}

/** The job's own `on_unknown`, else `retry` on free backends and `hold` on paid ones. */
export function unknownPolicy(turn: Turn, entry: JobEntry): OnUnknown {
  if (entry.ask.spec.on_unknown) return entry.ask.spec.on_unknown;
  const backend = entry.open && turn.fleet.backends.get(entry.open.backend);
  // A backend that is no longer configured counts as paid, to be safe.
  return backend && !backend.info.paid ? 'retry' : 'hold';
}

/** Abandons an open attempt. An accepted one becomes `unknown` first, as the table of moves requires. `error` is for people. */
export function abandonAttempt(turn: Turn, entry: JobEntry, cause: Cause, error?: ErrorInfo): void {
  let attempt = entry.open;
  if (!attempt) return;
  const { token } = entry;
  if (attempt.state === 'accepted') {
    attempt = loseAttempt(attempt, turn.epoch);
    turn.put('attempt', token, attempt, cause);
    if (entry.job.state === 'running') turn.put('job', entry.uid, lose(entry.job), cause);
  }
  // An attempt that has certainly not run was not heard either.
  if (cause !== 'tombstoned' && cause !== 'not-run' && cause !== 'returned')
    turn.noteEnd({ is: 'thread-lost', entry, backend: attempt.backend });
  const closed = { error, ...billOfAbandoned(attempt, cause) };
  turn.put('attempt', token, abandon(attempt, turn.now, closed), cause);
}
