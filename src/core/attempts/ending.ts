/**
 * The end of a try, and what follows for its job: success, another try, cancellation or the dead letter.
 */

import { backoffMs } from '../../kit/backoff.ts';
import { type ErrorInfo, errorInfo } from '../../model/errors.ts';
import { cancel, die, end, fail, reroute, retry, start, succeed, unclaim } from '../../model/moves.ts';
import type { TurnedAwayReason } from '../../model/reasons.ts';
import { type AskRecord, type AttemptRecord, scoped } from '../../model/records.ts';
import type { RoutePlace } from '../../model/route.ts';
import { isTerminal } from '../../model/states.ts';
import { completionTokens, type TokenCounts, totalTokens } from '../../model/usage.ts';
import type { HeardThread, Outcome, TurnedAway, UsedTokens, Waits } from '../ports/backend.ts';
import type { BackendEntry } from '../queue/fleet.ts';
import { needSourceOf } from '../queue/lane.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { billOfEnd, billOfNothing, pauseAfterOverrun } from './bill.ts';
import { noteHealth, noteTimeout } from './provider-fault.ts';
import { leaveAfterTurningAway, placeAfter } from './rerouting.ts';
import { tooManyWait, waitFor } from './waiting.ts';

/** The longest `retryAfterMs` that a backend may ask for. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** The end of an execution for which the provider may have worked. */
type RunOutcome = Exclude<Outcome, TurnedAway>;

/** Closes an open attempt whose end its backend has confirmed. `acceptedAt` counts where no acceptance was recorded. */
export function endAttempt(turn: Turn, entry: JobEntry, reported: Outcome, acceptedAt?: number): void {
  const { open } = entry;
  if (!open) return;
  if (reported.ok === 'turned_away') return turnAway(turn, entry, open, reported);
  const attempt = withAcceptance(turn, open, acceptedAt);
  const outcome = withoutErased(entry, reported);
  measure(turn, entry, attempt);
  noteUsage(turn, entry, attempt.backend, outcome);
  const heard = heardBy(turn, attempt, outcome);
  turn.noteEnd({ is: 'attempt', entry, attempt, tokens: chargedTokens(entry, attempt, outcome), heard });
  if (outcome.ok !== true) turn.noteEnd({ is: 'thread-lost', entry, backend: attempt.backend });
  const { token } = entry;
  const how = ENDS[String(outcome.ok) as keyof typeof ENDS];
  const error = outcome.ok === false ? outcome.error : undefined;
  // The outcome arrived before the acceptance. A job can only succeed from `running`, so start it first.
  const needsStart = outcome.ok === true || outcome.ok === 'waits';
  if (entry.job.state === 'claimed' && needsStart) {
    turn.put('job', entry.uid, start(entry.job, attempt.acceptedAt ?? turn.now), 'started');
  }
  const usage = outcome.usage && countsIn(outcome.usage);
  const isPartial = outcome.ok !== true && outcome.usage?.isPartial === true;
  const billed = billOfEnd(turn, entry, attempt, usage, isPartial);
  const label = labelOf(entry, attempt, outcome);
  turn.put('attempt', token, end(attempt, turn.now, how, { error, usage, label, ...billed }), how);
  const hasTimedOut = outcome.ok === 'cancelled' && attempt.kill?.why === 'timeout';
  if (hasTimedOut) noteTimeout(turn, entry, attempt.backend);
  else if (outcome.ok !== 'cancelled') noteHealth(turn, attempt.backend, error);
  pauseAfterOverrun(turn, token, attempt.backend, billed);
  if (isTerminal(entry.job.state)) return;
  if (outcome.ok === true) {
    turn.put('job', entry.uid, succeed(entry.job, turn.now, outcome.result), 'succeeded');
    if (outcome.said) turn.noteEnd({ is: 'said', entry, said: outcome.said });
  } else if (outcome.ok === 'waits') {
    beginWait(turn, entry, attempt, outcome);
  } else if (outcome.ok === false) {
    endBadly(turn, entry, outcome.error, outcome.retryAfterMs, true);
  } else endKilled(turn, entry, attempt);
}

/** The end tells how long an attempt took, also one whose acceptance was not recorded before. */
function withAcceptance(turn: Turn, attempt: AttemptRecord, at: number | undefined): AttemptRecord {
  if (attempt.acceptedAt !== undefined || at === undefined) return attempt;
  return { ...attempt, acceptedAt: boundedAcceptance(turn, attempt, at) };
}

/** Brain time may have been set back since the executor accepted the attempt. */
export const boundedAcceptance = ({ now }: Turn, { at: intendedAt }: AttemptRecord, at: number): number =>
  Math.max(intendedAt, Math.min(at, now));

/**
 * What is recorded of the end of a job that is being cancelled, if it belongs to a session: nothing that was said. The
 * session may have been deleted; its text must not come back, sealed with the key of the next session of that name.
 */
function withoutErased(entry: JobEntry, outcome: RunOutcome): RunOutcome {
  if (!mayBeErased(entry)) return outcome;
  if (outcome.ok === false) return { ...outcome, error: keptError(entry, outcome.error) };
  return outcome.usage ? { ok: 'cancelled', usage: outcome.usage } : { ok: 'cancelled' };
}

/** Whether the session of the job may have been deleted: the job is being cancelled. */
export const mayBeErased = ({ ask, job }: JobEntry): boolean =>
  job.cancel !== undefined && ask.spec.session_id !== undefined;

/** The error as it is recorded: without what was said about a job whose session may have been deleted. */
export function keptError(entry: JobEntry, { sealed, ...error }: ErrorInfo): ErrorInfo {
  return sealed === undefined || mayBeErased(entry) ? error : { ...error, sealed };
}

/** The name of each end of an execution, in its record. */
const ENDS = { true: 'succeeded', false: 'failed', cancelled: 'cancelled', waits: 'waits' } as const;

/** A job that is to end does not wait: what its execution says of its work did not come to be. */
function labelOf({ job }: JobEntry, { kill }: AttemptRecord, outcome: RunOutcome): string | undefined {
  if (outcome.ok === true) return outcome.label;
  return outcome.ok === 'waits' && !job.cancel && !kill ? outcome.label : undefined;
}

/** The execution asks to wait. A job that is to end does not wait. */
function beginWait(turn: Turn, entry: JobEntry, attempt: AttemptRecord, outcome: Waits): void {
  if (entry.job.cancel || attempt.kill) return endKilled(turn, entry, attempt);
  const { maxWaiting } = turn.settings;
  // A job that has waited before goes on: what it has done so far must not be lost.
  if (!entry.job.wait && turn.state.counts.waiting >= maxWaiting)
    return endBadly(turn, entry, tooManyWait(maxWaiting), undefined, false);
  waitFor(turn, entry, outcome);
}

/**
 * The provider behind the backend has done nothing for the job: it goes back to the queue with no try used up, and the
 * backend gets no job for as long as the provider wants, or for growing pauses if it does not say (docs/decisions/0029).
 */
function turnAway(turn: Turn, entry: JobEntry, attempt: AttemptRecord, outcome: TurnedAway): void {
  turn.noteEnd({ is: 'attempt', entry, attempt: { ...attempt, acceptedAt: undefined }, tokens: undefined });
  const { why, error, retryAfterMs } = outcome;
  rest(turn, attempt.backend, why, retryAfterMs);
  const closed = { error: keptError(entry, error), ...billOfNothing(attempt) };
  turn.put('attempt', entry.token, end(attempt, turn.now, 'turned_away', closed), 'turned-away');
  if (isTerminal(entry.job.state)) return;
  if (entry.job.cancel) return cancelJob(turn, entry);
  if (attempt.kill?.why === 'deadline') return expire(turn, entry);
  turn.put('job', entry.uid, unclaim(entry.job), 'turned-away');
  leaveAfterTurningAway(turn, entry, why);
}

function rest(turn: Turn, name: string, why: TurnedAwayReason, retryAfterMs: number | undefined): void {
  const backend = turn.fleet.backends.get(name);
  if (!backend) return;
  const rests = backend.turnedAway > 0 && backend.blockedUntil > turn.now;
  // Jobs that were under way when the backend began to rest say nothing new.
  if (rests && retryAfterMs === undefined) return;
  if (!rests) backend.turnedAway++;
  const pause =
    retryAfterMs === undefined
      ? backoffMs(turn.settings.backoff, backend.turnedAway, turn.random())
      : boundedWait(retryAfterMs);
  turn.fleet.block(name, turn.now + pause, why);
}

/** Ends the job of a killed attempt according to the reason of the kill. */
function endKilled(turn: Turn, entry: JobEntry, attempt: AttemptRecord): void {
  if (entry.job.cancel) return cancelJob(turn, entry);
  switch (attempt.kill?.why) {
    case 'deadline':
      return expire(turn, entry);
    case 'timeout':
      return endBadly(turn, entry, timeoutError(entry), undefined, false);
    default:
      return endBadly(
        turn,
        entry,
        errorInfo('WORKER_UNAVAILABLE', 'the backend stopped it'),
        undefined,
        false,
      );
  }
}

export const timeoutError = (entry: JobEntry): ErrorInfo =>
  errorInfo('WORKER_TIMEOUT', `it ran longer than its timeout of ${entry.ask.spec.timeout_ms} ms`);

export function cancelJob(turn: Turn, entry: JobEntry): void {
  turn.put('job', entry.uid, cancel(entry.job, turn.now, errorInfo('CANCELLED')), 'cancelled');
}

export function expire(turn: Turn, entry: JobEntry): void {
  const error = errorInfo('DEADLINE_EXCEEDED');
  const hasAttempt = entry.job.state !== 'queued' && entry.job.state !== 'waiting';
  if (hasAttempt) turn.put('job', entry.uid, fail(entry.job, error), 'expired');
  turn.put('job', entry.uid, die(entry.job, turn.now, 'expired', error), 'expired');
}

/**
 * A try has failed: the job is retried, or dies. `ownFault` means that the execution itself reported the error: only then
 * does a final error enter the failure cache.
 */
export function endBadly(
  turn: Turn,
  entry: JobEntry,
  error: ErrorInfo,
  retryAfterMs: number | undefined,
  ownFault: boolean,
): void {
  turn.put('job', entry.uid, fail(entry.job, error), 'failed');
  if (entry.job.cancel) return cancelJob(turn, entry);
  if (entry.job.tries < entry.ask.spec.max_tries && mayRepeat(entry)) {
    const place = placeAfter(turn, entry, error);
    // Another model is tried at once: what this one suffers from says nothing about it.
    if (place) return tryAgain(turn, entry, 0, place);
    const wait = Math.max(
      boundedWait(retryAfterMs),
      backoffMs(turn.settings.backoff, entry.job.tries, turn.random()),
    );
    if (error.retriable) return tryAgain(turn, entry, wait, entry.job.place);
  }
  turn.put('job', entry.uid, die(entry.job, turn.now, 'failed', error), 'dead');
  if (ownFault && !error.retriable) rememberFailure(turn, entry, error);
}

function tryAgain(turn: Turn, entry: JobEntry, waitMs: number, place: RoutePlace | undefined): void {
  const job = retry(entry.job, turn.now + waitMs);
  turn.put('job', entry.uid, place ? reroute(job, place) : job, 'retry');
}

/** A client may have streamed output of the failed try: retry only if there was none, or `after_output` allows it. */
const mayRepeat = (entry: JobEntry): boolean =>
  entry.outputAttempt < entry.job.attempt || afterOutput(entry.ask) === 'retry';

export const afterOutput = (ask: AskRecord): 'fail' | 'retry' =>
  ask.spec.after_output ?? (ask.spec.priority === 'interactive' ? 'fail' : 'retry');

/** Bounds the `retryAfterMs` of a backend, which nothing else has checked. */
export function boundedWait(ms: number | undefined): number {
  return ms === undefined || Number.isNaN(ms) ? 0 : Math.min(Math.max(0, ms), MAX_RETRY_AFTER_MS);
}

function rememberFailure(turn: Turn, entry: JobEntry, error: ErrorInfo): void {
  if (entry.ask.spec.key === undefined) return;
  const id = scoped(entry.ask.tenant, entry.ask.spec.key);
  turn.put('failure', id, { v: 1, until: turn.now + turn.settings.failureCacheTtlMs, error }, 'failed');
  for (let other = turn.state.displacedFailure(); other; other = turn.state.displacedFailure())
    turn.put('failure', other, null, 'displaced');
}

/** The counts of `usage` that an attempt record keeps: UsedTokens has the decode time too. */
const countsIn = ({ input, cacheRead, cacheWrite, output, reasoning }: TokenCounts): TokenCounts => ({
  input,
  cacheRead,
  cacheWrite,
  output,
  reasoning,
});

/** The share of a new measurement in a backend's decode speed. */
const SPEED_SMOOTHING = 0.2;

function noteUsage(turn: Turn, entry: JobEntry, name: string, outcome: RunOutcome): void {
  const backend = turn.fleet.backends.get(name);
  if (backend && outcome.ok === true) backend.turnedAway = 0;
  if (!outcome.usage) return;
  entry.usedTokens = (entry.usedTokens ?? 0) + totalTokens(outcome.usage);
  if (backend && outcome.ok === true) noteSpeed(backend, outcome.usage);
}

/** What the backend has of the job's session by now. Backends that only decide, and pools of consumers, have nothing of it. */
function heardBy(
  turn: Turn,
  { backend, isPulled }: AttemptRecord,
  outcome: RunOutcome,
): HeardThread | 'cached' | undefined {
  if (outcome.ok !== true || isPulled || turn.fleet.backends.get(backend)?.info.isRepeatable)
    return undefined;
  return outcome.thread ?? 'cached';
}

function noteSpeed(backend: BackendEntry, usage: UsedTokens): void {
  const completion = completionTokens(usage);
  if (completion < 2 || usage.decodeMs <= 0) return;
  const speed = (completion * 1000) / usage.decodeMs;
  const known = backend.decodeSpeed ?? speed;
  backend.decodeSpeed = known + SPEED_SMOOTHING * (speed - known);
}

/** The tokens that a try is charged to the session of its job. */
function chargedTokens(entry: JobEntry, attempt: AttemptRecord, outcome: RunOutcome): number | undefined {
  if (outcome.usage) return totalTokens(outcome.usage);
  if (outcome.ok === true) return 0;
  // A cancelled try may have produced output, which was not counted: charge the estimate.
  return entry.job.cancel && attempt.acceptedAt !== undefined ? (entry.ask.tokens ?? 0) : undefined;
}

function measure(turn: Turn, entry: JobEntry, attempt: AttemptRecord): void {
  if (attempt.acceptedAt === undefined) return;
  const { priority } = entry.ask.spec;
  // From the claim on: so long the slot is taken, and so long the jobs behind it wait.
  turn.fleet.findOrCreateLane(needSourceOf(entry)).measured(turn.now - attempt.at, priority);
}
