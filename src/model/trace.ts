/**
 * Trace ids of the W3C Trace Context (level 2). A caller may send the header `traceparent`; its trace goes on through the
 * job, the jobs below it and their executors. The ids of spans are derived from the job and its attempt, so that nothing
 * is kept beside the record, and a restart or a repeat gives the same ids.
 */
import { hash } from 'node:crypto';

/** The trace of a job as its record keeps it: trace id, span id of the caller and flags, as in `traceparent`. */
export type Trace = string;

/** The header by which HTTP requests name their trace. */
export const TRACEPARENT = 'traceparent';
/** The environment variable by which commands get it. */
export const TRACEPARENT_VARIABLE = 'TRACEPARENT';

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const TRACE_ID_CHARS = 32;
const SPAN_ID_CHARS = 16;
const ZEROS = /^0+$/;
/** `sampled` and `random`, the flags that are known; all others are cleared where a trace is passed on. */
const KNOWN_FLAGS = 0b11;
const NOT_SAMPLED = '00';

/** The trace that a `traceparent` names; undefined for one that is missing or malformed, which is ignored. */
export function traceIn(traceparent: unknown): Trace | undefined {
  if (typeof traceparent !== 'string') return undefined;
  const [, version, traceId = '', spanId = '', flags = '', rest] = FORM.exec(traceparent) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  const known = (Number.parseInt(flags, 16) & KNOWN_FLAGS).toString(16).padStart(2, '0');
  return `${traceId}-${spanId}-${known}`;
}

/** A `traceparent` as it was received, where it is well-formed. */
export const traceparentIn = (headers: Readonly<Record<string, unknown>>): string | undefined =>
  traceIn(headers[TRACEPARENT]) === undefined ? undefined : (headers[TRACEPARENT] as string);

/** A job in so far as its trace is concerned. */
export interface TracedJob {
  readonly trace?: Trace | undefined;
  readonly createdAt: number;
}

/** The trace id of a job: that of its caller, or one of its own, which follows from the job. */
export const traceIdOf = (uid: string, { trace, createdAt }: TracedJob): string =>
  trace?.slice(0, TRACE_ID_CHARS) ?? hash('sha256', `trace ${uid} ${createdAt}`).slice(0, TRACE_ID_CHARS);

/** The span of an attempt; that of the job as a whole has the number 0. */
export const spanIdOf = (uid: string, { createdAt }: TracedJob, attempt: number): string =>
  hash('sha256', `span ${uid} ${createdAt} ${attempt}`).slice(0, SPAN_ID_CHARS);

/** The trace of a job below this one: its caller is the job as a whole. */
export const traceBelow = (uid: string, job: TracedJob): Trace =>
  `${traceIdOf(uid, job)}-${spanIdOf(uid, job, 0)}-${flagsOf(job)}`;

/** The `traceparent` that the executor of an attempt gets; undefined for a job without a trace. */
export const traceparentOf = (uid: string, job: TracedJob, attempt: number): string | undefined =>
  job.trace === undefined
    ? undefined
    : `00-${traceIdOf(uid, job)}-${spanIdOf(uid, job, attempt)}-${flagsOf(job)}`;

const flagsOf = ({ trace }: TracedJob): string => trace?.slice(-NOT_SAMPLED.length) ?? NOT_SAMPLED;
