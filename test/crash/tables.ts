/** The tables of a stopped brain as they lie there, read past the store's own reader. */
import { crc32 } from 'node:zlib';
import { stableHash } from '../../src/kit/hash.ts';
import type { Body } from '../../src/model/body.ts';
import { isKept } from '../../src/model/kept-attempts.ts';
import type { Change, JobRecord } from '../../src/model/records.ts';
import { isOpen, isTerminal } from '../../src/model/states.ts';
import type { RowRef } from '../../src/stores/mariadb/blobs.ts';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import type { LoggedChange } from './full-log.ts';
import type { ResultReader } from './invariants.ts';
import type { Life, Replayed } from './replay.ts';

interface TrailRow {
  readonly id: number;
  readonly event_type: string;
  readonly details: string;
  readonly epoch: number;
  readonly at_ms: number;
  readonly subject: string;
}

interface JobRow {
  readonly uid: string;
  readonly is_terminal: number;
  readonly payload_blob: number | null;
  readonly result_blob: number | null;
  readonly job: string;
}

interface AttemptRow {
  readonly token: string;
  readonly uid: string;
  readonly is_open: number;
  readonly record: string;
}

export interface Tables {
  readonly lastSeq: number;
  readonly trail: readonly TrailRow[];
  readonly jobs: readonly JobRow[];
  readonly attempts: readonly AttemptRow[];
  readonly bodies: ReadonlyMap<number, Buffer>;
}

export async function ask<T>(url: string, run: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = await connector(url)();
  try {
    return await run(sql);
  } finally {
    await sql.close();
  }
}

/** All of it as of one moment. */
export const readTables = (url: string): Promise<Tables> =>
  ask(url, async (sql) => {
    await sql.begin();
    const [row] = await sql.query<{ last_seq: number }>('SELECT last_seq FROM orchestrator_epoch');
    const bodies = await sql.query<{ id: number; body: Buffer }>('SELECT id, body FROM orchestrator_blobs');
    return {
      lastSeq: row?.last_seq ?? -1,
      trail: await sql.query<TrailRow>('SELECT * FROM orchestrator_audit ORDER BY id'),
      jobs: await sql.query<JobRow>('SELECT * FROM orchestrator_jobs'),
      attempts: await sql.query<AttemptRow>('SELECT * FROM orchestrator_attempts'),
      bodies: new Map(bodies.map(({ id, body }) => [id, body])),
    };
  });

/** The trail as the changes that it tells of; payloads are in the rows of their jobs only. */
export const changesOf = ({ trail }: Tables): LoggedChange[] =>
  trail.map(({ id, event_type, details, at_ms, subject }) => {
    const kind = event_type.slice(0, event_type.indexOf(':'));
    const change = { kind, id: subject, ...(JSON.parse(details) as object) } as Change;
    return { seq: id, change, at: at_ms };
  });

/** Checks that the audit has one row for every change, without a gap, and that epochs never go back. */
export function checkTrail({ lastSeq, trail }: Tables): string[] {
  const problems: string[] = [];
  if (trail.length !== lastSeq) problems.push(`${trail.length} rows of the trail for ${lastSeq} changes`);
  trail.forEach(({ id, epoch }, at) => {
    if (id !== at + 1) problems.push(`row ${at + 1} of the trail has the number ${id}`);
    if (epoch < (trail[at - 1]?.epoch ?? 0))
      problems.push(`change ${id} is of epoch ${epoch}, which was over`);
  });
  return problems;
}

/** Each row is the last image of its record, as the trail has it. */
export function checkRows(tables: Tables, replayed: Replayed, historyMs: number): string[] {
  const problems: string[] = [];
  const rows = new Map(tables.jobs.map((row) => [row.uid, row]));
  for (const lives of replayed.lives.values()) {
    const life = lives.at(-1) as Life;
    const row = rows.get(life.uid);
    rows.delete(life.uid);
    const mayBeGone = (life.job.endedAt ?? Number.POSITIVE_INFINITY) < replayed.lastAt - historyMs;
    if (row) problems.push(...checkRow(tables, row, life));
    else if (!mayBeGone) problems.push(`${life.uid} has no row`);
  }
  for (const uid of rows.keys()) problems.push(`${uid} has a row, and the trail does not know it`);
  return problems;
}

function checkRow(tables: Tables, row: JobRow, { uid, job: told, attempts }: Life): string[] {
  const problems: string[] = [];
  const job = JSON.parse(row.job) as JobRecord;
  if (stableHash(job) !== stableHash(told))
    problems.push(`${uid} is ${job.state}, the trail says ${told.state}`);
  if (row.is_terminal !== Number(isTerminal(told.state))) problems.push(`${uid}: its row says another end`);
  const known = tables.attempts.filter((attempt) => attempt.uid === uid);
  const kept = [...attempts].filter(([, { record }]) => isKept(record));
  if (known.length !== kept.length) problems.push(`${uid} has ${known.length} of ${kept.length} attempts`);
  for (const [n, { record }] of kept) {
    const found = known.find(({ token }) => token === `${uid}:${n}`);
    if (!found || stableHash(JSON.parse(found.record)) !== stableHash(record))
      problems.push(`${uid}:${n} is not as the trail has it`);
    else if (found.is_open !== Number(isOpen(record.state)))
      problems.push(`${uid}:${n}: its row says another end`);
  }
  for (const blob of [row.payload_blob, row.result_blob])
    if (blob !== null && !tables.bodies.has(blob)) problems.push(`${uid}: a body is gone`);
  if (told.result !== undefined && textOf(tables, told.result) === undefined)
    problems.push(`${uid}: its result cannot be read`);
  return problems;
}

function textOf({ bodies }: Tables, body: Body): string | undefined {
  if (typeof body === 'string') return body;
  const { file, crc } = body as RowRef;
  const bytes = bodies.get(file);
  return bytes && crc32(bytes) === crc ? bytes.toString('utf8') : undefined;
}

export const tableResults =
  (tables: Tables): ResultReader =>
  ({ job }) => {
    const text = job.result === undefined ? undefined : textOf(tables, job.result);
    return text === undefined ? undefined : JSON.parse(text);
  };

/** The same rows in another database of the same server. */
export const copyTables = (from: string, to: string): Promise<void> =>
  ask(to, async (sql) => {
    const source = new URL(from).pathname.slice(1);
    const find =
      "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE'";
    for (const { name } of await sql.query<{ name: string }>(find, [source])) {
      await sql.run(`CREATE TABLE ${name} LIKE ${source}.${name}`);
      await sql.run(`INSERT INTO ${name} SELECT * FROM ${source}.${name}`);
    }
  });
