/**
 * The ids of a run's events: after which one a reader goes on. `<step>:<event of the job>` is in the words of a model,
 * `<step>:c<hex>` in a step with calls of tools, where each bit stands for a call whose result the reader has. A `p` behind
 * it: the reader knows that the run is paused.
 */
import { OrchdError } from '../model/errors.ts';

export interface RunPlace {
  readonly step: number;
  /** The last event of the model's job that was received. */
  readonly event?: string;
  /** The calls whose results were received, by their place in the step. */
  readonly told?: bigint;
  /** The reader knows that the run is paused. */
  readonly isPaused: boolean;
}

const PLACE = /^(\d{1,9}):(?:(\d{1,9}\.(?:\d{1,15}|end))|c([0-9a-f]{1,32}))(p?)$/;

/** Throws INVALID_PARAMS for a text that is no id of an event. */
export function placeOf(id: string | undefined): RunPlace | undefined {
  if (id === undefined || id === '') return undefined;
  const [, step, event, told, paused] = PLACE.exec(id) ?? [];
  if (step === undefined)
    throw new OrchdError('INVALID_PARAMS', 'Last-Event-ID is not an event id', { field: 'Last-Event-ID' });
  const isPaused = paused === 'p';
  if (event !== undefined) return { step: Number(step), event, isPaused };
  return { step: Number(step), told: BigInt(`0x${told}`), isPaused };
}

const END = 'end';

/** The id of an event for a reader that knows whether the run is paused. */
export const placeId = (id: string, isPaused: boolean): string => (isPaused && id !== END ? `${id}p` : id);

export const wordId = (step: number, event: string): string => `${step}:${event}`;

/** The id of the event after which a reader goes on, without what it knows about pauses. */
export const idOf = ({ step, event, told = 0n }: RunPlace): string =>
  event === undefined ? callsId(step, told) : wordId(step, event);

export const callsId = (step: number, told: bigint): string => `${step}:c${told.toString(16)}`;

/** Before the first event of a model's job. */
export const FIRST_WORD = '0.0';

/** The number of the step that a job below a run belongs to; undefined for a job that is none of its steps. */
export function stepOfJob(runId: string, jobId: string | undefined): number | undefined {
  const [, step] = /^\.(\d{1,9})(?:\.\d{1,9})?$/.exec(jobId?.slice(runId.length) ?? '') ?? [];
  return step === undefined ? undefined : Number(step);
}

/** Whether a run is `runId`, or one below it: the ids of these begin with its own, and go on with numbers. */
export const isOfRun = (id: string, runId: string): boolean =>
  id === runId || (id.startsWith(`${runId}.`) && /^\d+(?:\.\d+)*$/.test(id.slice(runId.length + 1)));
