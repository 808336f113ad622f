/** A job with everything that is stored of it, as far as that can still be read. */
import type { Body } from '../model/body.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { AskRecord, JobRecord } from '../model/records.ts';
import type { Bodies } from './bodies.ts';
import { bodyValue, type KnownLists } from './body-values.ts';

export interface RecordedJob {
  /** With its payload and its result. */
  readonly job: JobView;
  /** What it goes on with after its last wait; undefined for a job that has never waited, or has succeeded. */
  readonly state?: unknown;
  /** A body of it can no longer be read: its session was deleted, or the body is missing in the store. */
  readonly isGone: boolean;
}

/** A job with references to its bodies. */
export interface FoundBodies {
  readonly job: JobView;
  readonly payload: Body;
  readonly result: Body | undefined;
  /** What it goes on with after its last wait; undefined for a job that has succeeded. */
  readonly state: Body | undefined;
}

export const bodiesIn = (
  { ask, job }: { readonly ask: AskRecord; readonly job: JobRecord },
  state: Body | undefined,
): Omit<FoundBodies, 'job'> => ({ payload: ask.payload, result: job.result, state });

export async function recordedJob(bodies: Bodies, of: FoundBodies, known: KnownLists): Promise<RecordedJob> {
  const { job } = of;
  const [payload, result, state] = await Promise.all([
    orGone(bodies, of.payload, known),
    orGone(bodies, of.result, known),
    orGone(bodies, of.state, known),
  ]);
  const isGone = payload === GONE || result === GONE || state === GONE;
  if (isGone) return { job, isGone };
  return {
    job: { ...job, payload, ...(of.result !== undefined && { result }) },
    ...(of.state !== undefined && { state }),
    isGone,
  };
}

const GONE = Symbol('gone');

/** Throws errors that may pass. */
async function orGone(bodies: Bodies, body: Body | undefined, known: KnownLists): Promise<unknown> {
  if (body === undefined) return undefined;
  try {
    return await bodyValue(bodies, body, known);
  } catch (error) {
    if (error instanceof OrchdError && !error.retriable) return GONE;
    throw error;
  }
}
