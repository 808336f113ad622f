/** The events of one call of a model or a tool, in the stream of its run. */
import { merged } from '../kit/merged.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import { APPROVAL_TYPE, type Approval, type StepTags } from '../model/run-jobs.ts';
import type { JobEvent } from '../runtime/job-events.ts';
import { wordId } from './run-place.ts';

export interface RunEvent {
  /** The place after which a reader resumes (run-place.ts); `end` for the last event. */
  readonly id?: string;
  readonly event:
    | 'queued'
    | 'paused'
    | 'resumed'
    | 'step'
    | 'token'
    | 'reset'
    | 'tool_result'
    | 'approval'
    | 'needs_decision'
    | 'below'
    | 'end'
    | 'error';
  readonly data: unknown;
}

/** The reads from which the stream of a run is made. */
export interface RunSources {
  /** Follows a job; `after` is the id of the last event that was received. */
  follow(jobId: string, after?: string): AsyncGenerator<JobEvent>;
  /** Throws NOT_FOUND for a job that is no longer kept. */
  read(jobId: string): Promise<JobView>;
  /** The places in the queue of a job as they change, without the first; ends when the signal is aborted. */
  positions?(jobId: string, signal: AbortSignal): AsyncGenerator<object>;
}

/** A job below a run. Of one that is no longer kept only the id is known. */
export interface Call {
  readonly id: string;
  readonly job: JobView | undefined;
}

export const tagsOf = ({ job }: Call): Partial<StepTags> & { readonly hash?: string } => job?.tags ?? {};

/** The words of a model, and its place in the queue as it changes. */
export async function* modelEvents(
  sources: RunSources,
  step: number,
  { id }: Call,
  after: string | undefined,
): AsyncGenerator<RunEvent> {
  const words = wordEvents(sources, step, id, after);
  if (!sources.positions) return yield* words;
  const stop = new AbortController();
  try {
    yield* merged([words, queuedEvents(sources.positions(id, stop.signal))], { untilFirst: true });
  } finally {
    stop.abort();
  }
}

async function* queuedEvents(positions: AsyncGenerator<object>): AsyncGenerator<RunEvent> {
  for await (const data of positions) yield { event: 'queued', data };
}

async function* wordEvents(
  { follow }: RunSources,
  step: number,
  jobId: string,
  after: string | undefined,
): AsyncGenerator<RunEvent> {
  let hasTold = after !== undefined && !after.endsWith('.0');
  let isInDoubt = false;
  for await (const { type, id, data } of follow(jobId, after)) {
    const place = id === undefined ? {} : { id: wordId(step, id) };
    if (type === 'queued') yield { event: 'queued', data };
    else if (type === 'started') isInDoubt = false;
    else if (type === 'stale' && !isInDoubt) {
      isInDoubt = true;
      yield { event: 'needs_decision', data: { call_id: jobId } };
    } else if (type === 'token') {
      hasTold = true;
      yield { ...place, event: 'token', data: { ...(data as object), job_id: jobId } };
    } else if (type === 'reset') {
      hasTold = false;
      yield { event: 'reset', data: { job_id: jobId } };
    }
    // The run asks again, or ends: what the call has said is no part of an answer.
    else if (type === 'error' && hasTold && !isCancelled(data))
      yield { event: 'reset', data: { job_id: jobId, code: (data as { code?: string }).code } };
    // Nobody keeps the pieces of a call that has ended: its text is told at once.
    else if (type === 'end' && !hasTold)
      yield { ...place, event: 'token', data: { t: textIn(data), i: 0, job_id: jobId } };
  }
}

const isCancelled = (data: unknown): boolean => (data as { state?: string }).state === 'cancelled';

/** `told` makes the id of the event that has the result. */
export async function* toolEvents(
  { follow, read }: RunSources,
  call: Call,
  told: () => string,
): AsyncGenerator<RunEvent> {
  const { tool, hash } = tagsOf(call);
  const about = { call_id: call.id, ...(tool !== undefined && { tool }) };
  const isApproval = call.job?.type === APPROVAL_TYPE;
  let isInDoubt = false;
  for await (const { type, data } of follow(call.id)) {
    if (type === 'queued') yield { event: 'queued', data };
    else if (type === 'started') isInDoubt = false;
    else if (type === 'waiting' && isApproval) {
      const { wait } = await read(call.id);
      const expires = wait?.until === undefined ? {} : { expires_at: wait.until };
      yield { event: 'approval', data: { ...about, state: 'waiting', hash, ...expires } };
    } else if (type === 'stale' && !isInDoubt) {
      isInDoubt = true;
      yield { event: 'needs_decision', data: about };
    } else if (type === 'end' || type === 'error') {
      const ended = isApproval
        ? { event: 'approval' as const, data: { ...about, state: 'answered', hash, ...answerIn(data) } }
        : { event: 'tool_result' as const, data: { ...(data as object), ...about, ok: isOk(type, data) } };
      yield { ...ended, id: told() };
    }
  }
}

/** Nothing, for a job that is no longer kept: it has ended long ago, while others of its step go on. */
export async function* kept(events: AsyncGenerator<RunEvent>): AsyncGenerator<RunEvent> {
  try {
    yield* events;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

export const isNotFound = (error: unknown): boolean =>
  error instanceof OrchdError && error.code === 'NOT_FOUND';

/** A request that was cancelled is denied. */
function answerIn(data: unknown): Approval {
  const { result } = data as { result?: Approval };
  return result ?? { approved: false };
}

function isOk(type: string, data: unknown): boolean {
  const { result } = data as { result?: { ok?: unknown } | null };
  return type === 'end' && result?.ok !== false;
}

function textIn(data: unknown): string {
  const { result } = data as { result?: unknown };
  if (typeof result === 'string') return result;
  const { text } = (result ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
