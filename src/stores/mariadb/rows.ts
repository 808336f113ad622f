/** Turns records into the columns of the tables, and rows back into records. */
import type { JobBundle } from '../../core/ports/store.ts';
import { causeText } from '../../model/causes.ts';
import { TABLE_STATUS, tableError, tableOwner } from '../../model/jobs-table.ts';
import { keptBody } from '../../model/kept-body.ts';
import type { LeaseRecord } from '../../model/lease-record.ts';
import { FRESH_JOB } from '../../model/moves.ts';
import type { AskRecord, AttemptRecord, Change, JobRecord } from '../../model/records.ts';
import { isOpen, isTerminal, type JobState } from '../../model/states.ts';
import { upcast } from '../../model/upcast.ts';
import type { WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import { tagText } from '../tag-text.ts';
import { rowOf } from './blobs.ts';
import { CHARS } from './schema.ts';
import type { Value } from './sql.ts';

/** The values of column `status` for states. */
export const statusesOf = (states: readonly string[]): string[] =>
  states.map((state) => TABLE_STATUS[state as JobState] ?? state);

/** A column that is only searched may be cut, between characters; the record keeps the whole. */
export const cut = (text: string, chars: number = CHARS.text): string =>
  text.length > chars ? [...text].slice(0, chars).join('') : text;

export const ASK_COLUMNS = [
  'uid',
  'job_id',
  'tenant',
  'n',
  'type',
  'payload',
  'principal',
  'session_id',
  'job_key',
  'caller_chose_id',
  'payload_blob',
  'batch_id',
  'tags',
  'root_id',
  'ask',
] as const;

export const JOB_COLUMNS = [
  'seq',
  'status',
  'is_terminal',
  'owner_pool',
  'attempts',
  'ended_ms',
  'last_error',
  'result_blob',
  'job',
] as const;

/** The JSON text of a record. An ask is written without its inline payload, which has a column of its own. */
export const textOf = ({ kind, after }: Change): string =>
  kind === 'ask' && after ? askText(after) : JSON.stringify(after);

export function askText(ask: AskRecord): string {
  if (typeof ask.payload !== 'string') return JSON.stringify(ask);
  // An undefined field is left out of the text, and a copy made this way is cheaper than one of all other fields.
  return JSON.stringify({ ...ask, payload: undefined });
}

export function askValues(uid: string, ask: AskRecord, text: string): Value[] {
  const { payload } = ask;
  const isInline = typeof payload === 'string';
  return [
    uid,
    ask.id,
    ask.tenant,
    ask.n,
    ask.spec.type,
    isInline ? payload : 'null',
    cut(ask.spec.agent),
    ask.spec.session_id === undefined ? null : cut(ask.spec.session_id),
    ask.spec.key === undefined ? null : cut(ask.spec.key),
    ask.hash === undefined ? 0 : 1,
    rowOf(payload),
    ask.spec.batch ?? null,
    tagText(ask.spec.tags) ?? null,
    ask.ancestors?.[0] ?? null,
    text,
  ];
}

export function jobValues(job: JobRecord, text: string, seq: number): Value[] {
  return [
    seq,
    TABLE_STATUS[job.state],
    isTerminal(job.state) ? 1 : 0,
    job.backend === undefined ? null : cut(tableOwner(job.backend), CHARS.id),
    job.attempt,
    job.endedAt ?? null,
    job.error === undefined ? null : tableError(job.error),
    rowOf(keptBody(job)),
    text,
  ];
}

export const attemptValues = (token: string, attempt: AttemptRecord, text: string): Value[] => [
  token,
  attempt.job,
  attempt.n,
  isOpen(attempt.state) ? 1 : 0,
  text,
];

export function leaseValues(token: string, lease: LeaseRecord, text: string): Value[] {
  const { agent, gpuIndex, expiresAt, heartbeatAt, fence, minMemoryMb } = lease;
  return [
    token,
    cut(agent),
    gpuIndex ?? null,
    gpuIndex === undefined ? 'cpu' : 'gpu',
    expiresAt ?? null,
    heartbeatAt,
    JSON.stringify({ fence, min_memory_mb: minMemoryMb }),
    text,
  ];
}

/** The row of a worker pool, for people and programs: a brain reads its record, which holds the same. */
export function workerPoolValues(id: string, pool: WorkerPoolRecord): Value[] {
  const { provisioner, variant, serves, by, metadata } = pool;
  const nameOf = (text: string | undefined): string | null => (text === undefined ? null : cut(text));
  return [
    id,
    nameOf(pool.agent),
    nameOf(pool.model),
    nameOf(pool.adapter),
    pool.desired,
    pool.spawned,
    pool.startedAt,
    pool.heartbeatAt ?? null,
    pool.status,
    Math.round(pool.holdMs / 1000),
    JSON.stringify({ ...metadata, provisioner, variant, serves, by }),
  ];
}

/** An audit row; `text` is the text of the record, which the caller makes once for both rows. */
export function auditValues(change: Change, text: string, seq: number, epoch: number, now: number): Value[] {
  const { kind, id, cause } = change;
  const details = `{"cause":${JSON.stringify(cause)},"after":${text}}`;
  return [seq, `${kind}:${causeText(cause)}`.slice(0, 128), details, epoch, now, cut(id, CHARS.failure)];
}

export interface JobRow {
  readonly uid: string;
  readonly seq: number;
  readonly payload: string;
  readonly ask: string;
  readonly job: string;
}

export interface AttemptRow {
  readonly uid: string;
  readonly record: string;
}

/** The record of a job to which nothing has happened yet. */
export const FRESH_TEXT = JSON.stringify(FRESH_JOB);

export function bundleOfRow(row: JobRow, attempts: readonly AttemptRow[]): JobBundle {
  const ask = JSON.parse(row.ask) as { payload?: unknown };
  ask.payload ??= row.payload;
  return {
    uid: row.uid,
    seq: row.seq,
    ask: upcast('ask', ask as never),
    // Nearly all waiting jobs have this record: they share one object, as they do in the engine's state.
    job: row.job === FRESH_TEXT ? FRESH_JOB : upcast('job', JSON.parse(row.job) as never),
    attempts: attempts.map(({ record }) => upcast('attempt', JSON.parse(record) as never)),
  };
}
