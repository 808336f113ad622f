/** Reads ended jobs from the tables of all jobs: there is no copy that could lag behind. */
import type {
  HistoryQuery,
  HistoryReads,
  JobBelow,
  JobBundle,
  KeptJob,
  PurgePlan,
} from '../../core/ports/store.ts';
import { OrchdError } from '../../model/errors.ts';
import { DEFAULT_TENANT, uidOf } from '../../model/records.ts';
import { tagParts } from '../tag-text.ts';
import { dropBlobs } from './blobs.ts';
import { type AttemptRow, bundleOfRow, type JobRow, statusesOf } from './rows.ts';
import type { SharedConnection } from './shared-connection.ts';
import { type Sql, transaction, type Value } from './sql.ts';

export const JOB_ROW = 'uid, seq, payload, ask, job';
/** Conditions for an ended job of which no attempt runs any more. */
const ENDED = `is_terminal = 1 AND NOT EXISTS
  (SELECT 1 FROM orchestrator_attempts a WHERE a.uid = orchestrator_jobs.uid AND a.is_open = 1)`;
const UIDS_PER_QUERY = 500;

/** Selects the rows of many jobs, UIDS_PER_QUERY at a time. */
async function rowsOf<Row>(
  sql: Sql,
  uids: readonly string[],
  select: (marks: string) => string,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let from = 0; from < uids.length; from += UIDS_PER_QUERY) {
    const some = uids.slice(from, from + UIDS_PER_QUERY);
    rows.push(...(await sql.query<Row>(select(some.map(() => '?').join(',')), some)));
  }
  return rows;
}

/** The attempts of jobs in the order they were made, by uid. */
export async function attemptsOf(
  sql: Sql,
  uids: readonly string[],
): Promise<ReadonlyMap<string, readonly AttemptRow[]>> {
  const rows = await rowsOf<AttemptRow>(
    sql,
    uids,
    (marks) => `SELECT uid, record FROM orchestrator_attempts WHERE uid IN (${marks}) ORDER BY uid, n`,
  );
  const byJob = new Map<string, AttemptRow[]>();
  for (const row of rows) {
    const known = byJob.get(row.uid);
    if (known) known.push(row);
    else byJob.set(row.uid, [row]);
  }
  return byJob;
}

export async function bundles(sql: Sql, rows: readonly JobRow[]): Promise<JobBundle[]> {
  const attempts = await attemptsOf(
    sql,
    rows.map(({ uid }) => uid),
  );
  return rows.map((row) => bundleOfRow(row, attempts.get(row.uid) ?? []));
}

/** Lookups of one turn of the event loop, which are sent as one query. */
interface Asked {
  readonly uids: string[];
  readonly found: Promise<ReadonlyMap<string, JobBundle>>;
}

async function endedJobs(sql: Sql, uids: readonly string[]): Promise<ReadonlyMap<string, JobBundle>> {
  const rows = await rowsOf<JobRow>(
    sql,
    uids,
    (marks) => `SELECT ${JOB_ROW} FROM orchestrator_jobs WHERE uid IN (${marks}) AND ${ENDED}`,
  );
  const found = await bundles(sql, rows);
  return new Map(rows.map(({ uid }, at) => [uid, found[at] as JobBundle]));
}

export class TableHistory implements HistoryReads {
  readonly #connection: SharedConnection;
  #asked: Asked | undefined;

  constructor(connection: SharedConnection) {
    this.#connection = connection;
  }

  /** All jobs that are looked up in one turn of the event loop are read by one query. */
  async get(uid: string): Promise<JobBundle | undefined> {
    this.#asked ??= this.#ask();
    this.#asked.uids.push(uid);
    return (await this.#asked.found).get(uid);
  }

  #ask(): Asked {
    const uids: string[] = [];
    const found = Promise.resolve().then(() => {
      this.#asked = undefined;
      return this.#connection.read((sql) => endedJobs(sql, uids));
    });
    return { uids, found };
  }

  async list(query: HistoryQuery): Promise<JobBundle[]> {
    const where = ['tenant = ?', ENDED];
    const values: Value[] = [query.tenant];
    const and = (clause: string, ...more: Value[]): void => {
      where.push(clause);
      values.push(...more);
    };
    if (query.before !== undefined) and('n < ?', query.before);
    if (query.after !== undefined) and('n > ?', query.after);
    if (query.states) {
      const statuses = statusesOf(query.states);
      and(`status IN (${statuses.map(() => '?').join(',') || 'NULL'})`, ...statuses);
    }
    if (query.type !== undefined) and('type = ?', query.type);
    if (query.session !== undefined) and('session_id = ?', query.session);
    if (query.key !== undefined) and('job_key = ?', query.key);
    if (query.principal !== undefined) and('principal = ?', query.principal);
    if (query.batch !== undefined) and('batch_id = ?', query.batch);
    if (query.root !== undefined) and('root_id = ?', query.root);
    for (const part of tagParts(query.tags ?? {})) and('INSTR(tags, ?) > 0', part);
    const order = query.order === 'oldest first' ? 'ASC' : 'DESC';
    const select = `SELECT ${JOB_ROW} FROM orchestrator_jobs WHERE ${where.join(' AND ')} ORDER BY n ${order} LIMIT ?`;
    values.push(query.limit);
    return this.#connection.read(async (sql) => bundles(sql, await sql.query<JobRow>(select, values)));
  }

  between(from: string, below: string, limit: number): Promise<JobBundle[]> {
    const select = `SELECT ${JOB_ROW} FROM orchestrator_jobs WHERE uid >= ? AND uid < ? AND ${ENDED} ORDER BY uid DESC LIMIT ?`;
    return this.#connection.read(async (sql) =>
      bundles(sql, await sql.query<JobRow>(select, [from, below, limit])),
    );
  }

  async count(): Promise<number> {
    const select = `SELECT COUNT(*) AS value FROM orchestrator_jobs WHERE ${ENDED}`;
    const [row] = await this.#connection.read((sql) => sql.query<{ value: number }>(select));
    return row?.value ?? 0;
  }
}

/** `ended_ms`: when the job ended or, of one that a purge has passed over, the instant from which its time counts. */
const purgeable = (columns: string): string => `SELECT ${columns} FROM orchestrator_jobs
  WHERE ended_ms < ? AND ${ENDED} ORDER BY ended_ms LIMIT ?`;

export async function planPurge(sql: Sql, endedBefore: number, limit: number): Promise<PurgePlan> {
  const [row] = await sql.query<{ jobs: number; floor: number | null }>(
    `SELECT COUNT(*) AS jobs, MAX(IF(caller_chose_id = 1, attempts, 0)) AS floor
      FROM (${purgeable('attempts, caller_chose_id')}) AS doomed`,
    [endedBefore, limit],
  );
  const below = await jobsBelow(sql, endedBefore, limit);
  return { jobs: row?.jobs ?? 0, attemptFloor: Number(row?.floor ?? 0), below };
}

interface BelowRow {
  readonly uid: string;
  readonly tenant: string;
  /** A JSON array of ids. */
  readonly ancestors: string;
  readonly root_ended: number | null;
}

/** Those of the jobs which a purge would delete that are below others. The text of a whole ask stays in the database. */
async function jobsBelow(sql: Sql, endedBefore: number, limit: number): Promise<JobBelow[]> {
  const rows = await sql.query<BelowRow>(
    `SELECT d.uid, d.tenant, CONCAT('', JSON_EXTRACT(j.ask, '$.ancestors')) AS ancestors, r.ended_ms AS root_ended
      FROM (${purgeable('uid, tenant, root_id')}) AS d
      JOIN orchestrator_jobs j ON j.uid = d.uid
      LEFT JOIN orchestrator_jobs r ON r.uid = IF(d.tenant = ?, d.root_id, CONCAT(d.tenant, '~', d.root_id))
      WHERE d.root_id IS NOT NULL`,
    [endedBefore, limit, DEFAULT_TENANT],
  );
  return rows.map(({ uid, tenant, ancestors, root_ended }) => ({
    uid,
    ancestors: (JSON.parse(ancestors) as string[]).map((id) => uidOf(tenant, id)),
    rootEndedAt: root_ended ?? undefined,
  }));
}

const PURGE_ROWS = 500;
/** Locks the fence row and changes nothing; it finds no row where another node leads. */
export const HOLD_FENCE = 'UPDATE orchestrator_epoch SET epoch = epoch WHERE id = 1 AND epoch = ?';

interface PurgeableRow {
  readonly uid: string;
  readonly payload_blob: number | null;
  readonly result_blob: number | null;
}

/** Purges in small transactions, each behind the fence: commits of the engine wait for the same row. */
export async function purge(
  sql: Sql,
  epoch: number,
  endedBefore: number,
  limit: number,
  kept: readonly KeptJob[] = [],
): Promise<void> {
  for (let from = 0; from < kept.length; from += PURGE_ROWS)
    await fenced(sql, epoch, () => keep(sql, kept.slice(from, from + PURGE_ROWS)));
  for (let left = limit - kept.length; left > 0; left -= PURGE_ROWS) {
    const rows = await sql.query<PurgeableRow>(purgeable('uid, payload_blob, result_blob'), [
      endedBefore,
      Math.min(left, PURGE_ROWS),
    ]);
    if (rows.length === 0) return;
    await fenced(sql, epoch, async () => {
      await drop(sql, rows);
      await sql.run('DELETE FROM orchestrator_failures WHERE until_ms < ?', [endedBefore]);
    });
  }
}

const fenced = (sql: Sql, epoch: number, run: () => Promise<void>): Promise<void> =>
  transaction(sql, async () => {
    const fence = await sql.run(HOLD_FENCE, [epoch]);
    if (fence.rows !== 1) throw new OrchdError('FENCED');
    await run();
  });

/** A job that lives again, or has ended again, since the plan was made is left as it is. */
const keep = (sql: Sql, jobs: readonly KeptJob[]): Promise<void> =>
  sql.batch(
    `UPDATE orchestrator_jobs SET ended_ms = ?, updated_at = updated_at
      WHERE uid = ? AND is_terminal = 1 AND ended_ms < ?`,
    jobs.map(({ uid, from }) => [from, uid, from]),
  );

async function drop(sql: Sql, rows: readonly PurgeableRow[]): Promise<void> {
  const uids = rows.map(({ uid }) => [uid]);
  const named = rows.flatMap(({ payload_blob, result_blob }) => [payload_blob, result_blob]);
  const unowned = await unownedOf(
    sql,
    named.filter((id) => id !== null),
  );
  await sql.batch('DELETE FROM orchestrator_attempts WHERE uid = ?', uids);
  await sql.batch('DELETE FROM orchestrator_jobs WHERE uid = ?', uids);
  await dropBlobs(sql, unowned);
}

/** A body with an owner may be a part of another one: retention.ts removes it when its owner is gone. */
async function unownedOf(sql: Sql, ids: readonly number[]): Promise<number[]> {
  if (ids.length === 0) return [];
  const marks = ids.map(() => '?').join(',');
  const select = `SELECT id FROM orchestrator_blobs WHERE owner IS NULL AND id IN (${marks})`;
  return (await sql.query<{ id: number }>(select, ids)).map(({ id }) => id);
}
