/**
 * One stream of events for a run: its steps, what its model says as it says it, its tools, and its end. The events of the
 * jobs below are passed on as they come; nothing is kept.
 */

import { OrchdError } from '../model/errors.ts';
import type { JobEvent } from '../runtime/job-events.ts';

export interface RunEvent {
  /** `<step>:<event of the job>`, or `end`: where to resume. */
  readonly id?: string;
  readonly event: 'queued' | 'step' | 'token' | 'reset' | 'tool_result' | 'end' | 'error';
  readonly data: unknown;
}

/** Follows a job; `after` is the id of the last event that was received. */
export type FollowJob = (jobId: string, after?: string) => AsyncGenerator<JobEvent>;

interface Place {
  readonly step: number;
  readonly event: string;
}

const PLACE = /^(\d{1,9}):(\d{1,9}\.(?:\d{1,15}|end))$/;

/** Throws INVALID_PARAMS for a text that is no id of an event. */
export function placeOf(id: string | undefined): Place | undefined {
  if (id === undefined || id === '') return undefined;
  const [, step, event] = PLACE.exec(id) ?? [];
  if (step !== undefined && event !== undefined) return { step: Number(step), event };
  throw new OrchdError('INVALID_PARAMS', 'Last-Event-ID is not an event id', { field: 'Last-Event-ID' });
}

interface Waiting {
  readonly step: number;
  readonly jobs: readonly string[];
}

/** Steps that began and ended while nobody followed the run are left out: its end has all of them. */
export async function* runEvents(
  follow: FollowJob,
  runId: string,
  after: Place | undefined,
): AsyncGenerator<RunEvent> {
  let lastStep = (after?.step ?? 0) - 1;
  for await (const { type, data } of follow(runId)) {
    if (type === 'queued') yield { event: 'queued', data };
    else if (type === 'end') yield { id: 'end', event: 'end', data: resultIn(data) };
    else if (type === 'error') yield { id: 'end', event: 'error', data };
    else if (type === 'waiting') {
      const { step, jobs } = data as Waiting;
      if (step <= lastStep) continue;
      lastStep = step;
      yield { event: 'step', data: { step, jobs } };
      const place = after?.step === step ? after.event : undefined;
      for (const jobId of jobs) yield* kept(callEvents(follow, runId, step, jobId, place));
    }
  }
}

/** The calls of tools have ids of one part more than those of the model (`<run>.<step>.<call>`). */
const isModelCall = (runId: string, jobId: string): boolean => /^\d+$/.test(jobId.slice(runId.length + 1));

/** Nothing, for a job that is no longer kept: it has ended long ago, while others of its step go on. */
async function* kept(events: AsyncGenerator<RunEvent>): AsyncGenerator<RunEvent> {
  try {
    yield* events;
  } catch (error) {
    if (!(error instanceof OrchdError) || error.code !== 'NOT_FOUND') throw error;
  }
}

async function* callEvents(
  follow: FollowJob,
  runId: string,
  step: number,
  jobId: string,
  after: string | undefined,
): AsyncGenerator<RunEvent> {
  const isModel = isModelCall(runId, jobId);
  let hasTold = after !== undefined;
  for await (const { type, id, data } of follow(jobId, isModel ? after : undefined)) {
    const place = id === undefined ? {} : { id: `${step}:${id}` };
    if (type === 'queued') yield { event: 'queued', data };
    if (!isModel) {
      if (type === 'end' || type === 'error') yield { event: 'tool_result', data };
      continue;
    }
    if (type === 'token') {
      hasTold = true;
      yield { ...place, event: 'token', data: { ...(data as object), job_id: jobId } };
    } else if (type === 'reset') yield { event: 'reset', data: { job_id: jobId } };
    // Nobody keeps the pieces of a call that has ended: its text is told at once.
    else if (type === 'end' && !hasTold)
      yield { ...place, event: 'token', data: { t: textIn(data), i: 0, job_id: jobId } };
  }
}

/** A run ends with its result. */
const resultIn = (data: unknown): unknown => {
  const { job_id: runId, result, cost } = data as { job_id: string; result: object; cost?: unknown };
  return { run_id: runId, ...result, ...(cost !== undefined && { cost }) };
};

function textIn(data: unknown): string {
  const { result } = data as { result?: unknown };
  if (typeof result === 'string') return result;
  const { text } = (result ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
