/** Parts of the text about a job. */
import { ERRORS, isErrorCode } from '../../model/errors.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { RUN_JOB_TYPES } from '../../model/run-jobs.ts';
import { isTerminal } from '../../model/states.ts';
import { durationText } from './duration.ts';
import { oneLine } from './screen.ts';

interface Place {
  readonly queue_position?: number;
  readonly predicted_start_ms?: number;
}

/** `2 jobs go first, starts in about 12 s`; empty where neither is known. */
export function placeText({ queue_position: ahead, predicted_start_ms: wait }: Place): string {
  const parts = [
    ahead === undefined ? '' : aheadText(ahead),
    wait === undefined ? '' : wait <= 0 ? 'starts at once' : `starts in about ${durationText(wait)}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

const aheadText = (ahead: number): string =>
  ahead === 0 ? 'next' : ahead === 1 ? '1 job goes first' : `${ahead} jobs go first`;

/** The backend of the last attempt, as one line. */
export function backendOf(job: JobView): string | undefined {
  const backend = job.attempts.at(-1)?.backend;
  return backend === undefined ? undefined : oneLine(backend);
}

/** Where a job runs, why it waits or how it ended: the last column of `orchd jobs`. */
export function whereText(job: JobView): string {
  if (job.waiting) return [oneLine(job.waiting.text), placeAfter(job)].filter(Boolean).join('; ');
  const backend = backendOf(job);
  if (job.state === 'succeeded') return [backend, tookText(job)].filter(Boolean).join(', ');
  if (job.error) return `${codeText(job.error)}: ${oneLine(job.error.message)}`;
  return job.reason ?? backend ?? '';
}

interface Code {
  readonly code: string;
  readonly reason?: string | undefined;
}

/** The code of an error, with its reason: the code that the worker itself gave, if orchd has no such code. */
export function codeText({ code, reason }: Code): string {
  // "failed" is the reason of the job, which the last event of a stream has where the error gives none.
  return oneLine(reason === undefined || reason === 'failed' ? code : `${code}, ${reason}`);
}

/** The queue position is left out: the reason for the wait already says how many jobs are ahead. */
export const placeAfter = ({ predicted_start_ms }: JobView): string =>
  predicted_start_ms === undefined ? '' : placeText({ predicted_start_ms });

type Run = Pick<JobView, 'started_at' | 'ended_at' | 'attempts'>;

/**
 * How long the last attempt of an ended job took; undefined if it had none. It counts from the offer to the backend: the
 * outcome of a short job can come together with the acceptance, or before it.
 */
export function lastRunMs({ started_at: started, ended_at: ended, attempts }: Run): number | undefined {
  const last = attempts.at(-1);
  const from = last?.intended_at ?? started;
  const to = last?.ended_at ?? ended;
  return ended === undefined || from === undefined || to === undefined ? undefined : to - from;
}

export function tookText(job: Run): string {
  const ms = lastRunMs(job);
  return ms === undefined ? '' : `took ${durationText(ms)}`;
}

/** One sentence: why a job waits, or that it does not wait. */
export function explainText(job: JobView, now: number): string {
  const { job_id: id, state, waiting } = job;
  if (waiting) {
    const place = job.state === 'queued' ? placeAfter(job) : '';
    const why = oneLine(waiting.text);
    // Some reasons begin with the word themselves.
    return `${id} ${why.startsWith('waits ') ? why : `waits: ${why}`}${place === '' ? '' : `; it ${place}`}.`;
  }
  if (isTerminal(state)) {
    const when = job.ended_at === undefined ? '' : `, ${durationText(now - job.ended_at)} ago`;
    return `${id} does not wait: it has ended (${state})${when}.`;
  }
  const since = job.started_at === undefined ? '' : ` for ${durationText(now - job.started_at)}`;
  return `${id} does not wait: it is ${state} on "${backendOf(job) ?? '?'}"${since}.`;
}

/** The state of a job; a run that has failed has succeeded as a job, because it has a result. */
export const stateText = ({ state, run_state: run }: Pick<JobView, 'state' | 'run_state'>): string =>
  run === 'failed' ? `${state} (run failed)` : state;

/** The state that a job is painted as. */
export const paintedState = ({
  state,
  run_state: run,
}: Pick<JobView, 'state' | 'run_state'>): JobView['state'] => (run === 'failed' ? 'failed' : state);

/** What a person can do about the job in its current state; undefined if there is nothing to do. */
export function nextStep({
  job_id: id,
  type = '',
  state,
  tags,
  waiting,
}: Pick<JobView, 'job_id' | 'state' | 'tags' | 'waiting'> & Partial<Pick<JobView, 'type'>>):
  | string
  | undefined {
  // A run goes on without a call that is dead: nobody would use what it returns.
  const isCallOfRun = RUN_JOB_TYPES.includes(type) || tags?.['model_role'] !== undefined;
  if (state === 'dead' && isCallOfRun) return undefined;
  if (state === 'dead') return `orchd redrive ${id} queues it again.`;
  if (state === 'stale') return `orchd resolve ${id} --as retry|failed|succeeded decides its outcome.`;
  if (waiting?.code === 'no_backend') {
    return `Start a backend that can run it, or correct the job; orchd cancel ${id} cancels it.`;
  }
  return undefined;
}

/**
 * The advice of the catalogue of errors; undefined for a code of a newer server that is not in it, for an unknown outcome
 * of a job that is dead, because nothing is left to decide about it, and for an error that another try may not meet
 * although its code usually means that it would: a job that used up its tries need not be wrong.
 */
export function adviceFor(
  { code, retriable }: { readonly code: string; readonly retriable?: boolean | undefined },
  state: string,
): string | undefined {
  if (!isErrorCode(code) || (code === 'UNKNOWN_OUTCOME' && state === 'dead')) return undefined;
  return retriable && !ERRORS[code].retriable ? undefined : ERRORS[code].next;
}

/** The text of a result: the result itself or its field `text`, as most backends have it; anything else as JSON. */
export function resultText(result: unknown): string {
  if (result === undefined || result === null) return '';
  if (typeof result === 'string') return result;
  const { text } = result as { text?: unknown };
  return typeof text === 'string' ? text : JSON.stringify(result, undefined, 2);
}
