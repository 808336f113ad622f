/** A job in memory: what was asked, how far it is, and what only this process knows of it. */
import { excessOf } from '../kit/depth.ts';
import { isObject } from '../kit/record-file.ts';
import type { Lock } from './lock.ts';
import { isSpoolStatus, type SpoolStatus } from './states.ts';

export const SCHEMA_VERSION = '1.0.0';

/** `job.json`. Fields that others have added are kept. */
export interface Lifecycle {
  readonly status: SpoolStatus;
  readonly 'schema-version': string;
  readonly retry_count: number;
  readonly max_retries: number;
  /** The number of changes of the status so far; each has a line in `history.jsonl` with this number. */
  readonly moves: number;
  /** The number of times that the job was claimed. */
  readonly attempt: number;
  /** The agent of the last attempt. */
  readonly agent?: string | undefined;
  readonly changed_at?: string | undefined;
  /** Why the job failed, became stale or was killed. */
  readonly reason?: string | undefined;
  /** The id of the request that the job belongs to; log lines of an attempt have `<correlation_id>.<attempt>`. */
  readonly correlation_id?: string | undefined;
  /** Set by a brain, which alone decides about another attempt then. */
  readonly token?: string | undefined;
  /** The job of the brain, its type and its model; commands get them in JOB_ID, JOB_TYPE and JOB_MODEL. */
  readonly job_id?: string | undefined;
  readonly type?: string | undefined;
  readonly model?: string | undefined;
  /** When a job with a token was claimed, in ms since 1970. */
  readonly started_at?: number | undefined;
  /** False in a failed job: the same job would fail again. */
  readonly retriable?: boolean | undefined;
  readonly [other: string]: unknown;
}

export interface Envelope {
  /** The value in `prompt.json`; never written. */
  readonly prompt: unknown;
  readonly lifecycle: Lifecycle;
  /** Never written. */
  readonly runtime: Runtime;
}

export interface Runtime {
  readonly name: string;
  /** The folder of the job, which is its agent's until it is committed. */
  readonly folder: string;
  readonly lock: Lock;
  /** A `result.json` is there already, so that the job is not to be run. */
  readonly isFinished: boolean;
}

export type ReadLifecycle =
  | { readonly is: 'read'; readonly lifecycle: Lifecycle }
  | { readonly is: 'unreadable'; readonly why: string }
  | { readonly is: 'unknown version'; readonly version: string };

/** The lifecycle of a folder without a `job.json`. */
export const freshLifecycle = (maxRetries: number): Lifecycle => ({
  status: 'queued',
  'schema-version': SCHEMA_VERSION,
  retry_count: 0,
  max_retries: maxRetries,
  moves: 0,
  attempt: 0,
});

/** Reads the text of a `job.json`. `maxRetries` is for one that names none. */
export function parseLifecycle(text: string, maxRetries: number): ReadLifecycle {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { is: 'unreadable', why: 'job.json is not JSON' };
  }
  if (!isObject(value) || Array.isArray(value)) return { is: 'unreadable', why: 'job.json is no object' };
  const found = value as Readonly<Record<string, unknown>>;
  const version = found['schema-version'];
  if (typeof version !== 'string') return { is: 'unreadable', why: 'job.json has no schema-version' };
  if (version !== SCHEMA_VERSION) return { is: 'unknown version', version };
  // What could not be written again would stop every daemon that moves the job.
  const excess = excessOf(found);
  if (excess) return { is: 'unreadable', why: `job.json is nested or filled too far: ${excess}` };
  const { status } = found;
  if (!isSpoolStatus(status)) return { is: 'unreadable', why: 'job.json has no known status' };
  const counts = {
    retry_count: found['retry_count'] ?? 0,
    max_retries: found['max_retries'] ?? maxRetries,
    moves: found['moves'] ?? 0,
    attempt: found['attempt'] ?? 0,
  };
  const wrong = Object.entries(counts).find(([, count]) => !Number.isSafeInteger(count) || Number(count) < 0);
  if (wrong) return { is: 'unreadable', why: `${wrong[0]} in job.json is no count` };
  const known = { ...counts, status, 'schema-version': version, ...reasonIn(found) };
  return { is: 'read', lifecycle: { ...found, ...known } as Lifecycle };
}

/** Other programs write reasons that are no text, such as `null`. */
function reasonIn({ reason }: Readonly<Record<string, unknown>>): Pick<Lifecycle, 'reason'> {
  if (reason === undefined || typeof reason === 'string') return {};
  return { reason: reason === null ? undefined : JSON.stringify(reason) };
}

/** The text for people and for logs that names an attempt. */
export const attemptId = ({ correlation_id, attempt }: Lifecycle, name: string): string =>
  `${correlation_id ?? name}.${attempt}`;
