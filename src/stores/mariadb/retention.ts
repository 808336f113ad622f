/**
 * Removes bodies that neither a job nor a session needs and old audit rows, in small transactions, each behind the fence: commits of the
 * engine wait for the same row.
 */
import { dropBlobs } from './blobs.ts';
import { behindFence } from './fence.ts';
import type { Sql, Value } from './sql.ts';

/** A body is written before its record; no submission takes this long from one to the other. */
const YOUNG_SEC = 600;
const PIECE_ROWS = 500;
/** Bodies that one call checks, at most: most of them are named by a job and stay. */
const LOOK_ROWS = 5000;

/**
 * A body says which job names it; the row of that job says whether it still does. A body that is a part of others says who
 * owns it, and is kept as long as its owner; a session may be in memory or in the archive. The jobs of a session may be
 * kept for longer than the session, and the payload of one may be composed of such parts.
 */
const UNNAMED = `NOT EXISTS (SELECT 1 FROM orchestrator_jobs j
  WHERE j.uid = b.uid AND (j.payload_blob = b.id OR j.result_blob = b.id))
  AND (b.owner IS NULL OR NOT (
    EXISTS (SELECT 1 FROM orchestrator_jobs o WHERE b.owner LIKE 'job:%' AND o.uid = SUBSTRING(b.owner, 5))
    OR EXISTS (SELECT 1 FROM orchestrator_records r
      WHERE b.owner LIKE 'session:%' AND r.kind = 'session' AND r.id = SUBSTRING(b.owner, 9))
    OR EXISTS (SELECT 1 FROM orchestrator_sessions a
      WHERE b.owner LIKE 'session:%' AND a.name = SUBSTRING(b.owner, 9))
    OR EXISTS (SELECT 1 FROM orchestrator_jobs s
      WHERE b.owner LIKE 'session:%' AND s.session_id = SUBSTRING(b.owner, LOCATE('~', b.owner) + 1)
      AND s.tenant = SUBSTRING(b.owner, 9, LOCATE('~', b.owner) - 9))))`;

/**
 * Bodies that neither a job nor a session needs and that are older than ten minutes by the database's clock. Looks at
 * some of those after `from` and returns where to go on; 0 where it has come to the end.
 */
export async function dropUnnamedBodies(sql: Sql, epoch: number, from = 0): Promise<number> {
  const [reach] = await sql.query<{ last: number | null }>(
    'SELECT MAX(id) AS last FROM (SELECT id FROM orchestrator_blobs WHERE id > ? ORDER BY id LIMIT ?) AS some',
    [from, LOOK_ROWS],
  );
  const last = reach?.last ?? null;
  if (last === null) return 0;
  const old = `b.created_at < CURRENT_TIMESTAMP(6) - INTERVAL ${YOUNG_SEC} SECOND`;
  const unnamed = await sql.query<{ id: number }>(
    `SELECT b.id FROM orchestrator_blobs b WHERE b.id > ? AND b.id <= ? AND ${old} AND ${UNNAMED}`,
    [from, last],
  );
  for (const ids of piecesOf(unnamed.map(({ id }) => id))) {
    const marks = ids.map(() => '?').join(',');
    await behindFence(sql, epoch, async () => {
      // Checked again behind the fence, where no commit can name one of them meanwhile.
      const still = await sql.query<{ id: number }>(
        `SELECT b.id FROM orchestrator_blobs b WHERE b.id IN (${marks}) AND ${UNNAMED} FOR UPDATE`,
        ids,
      );
      await dropBlobs(
        sql,
        still.map(({ id }) => id),
      );
    });
  }
  return last;
}

export interface AuditLimits {
  /** Audit rows of earlier times are removed. */
  readonly before: number;
  /** The size that the audit table may have; the oldest rows beyond it are removed. */
  readonly bytes: number;
}

/** Removes up to `limit` audit rows, oldest first; returns how many. */
export async function trimAudit(
  sql: Sql,
  epoch: number,
  { before, bytes }: AuditLimits,
  limit: number,
): Promise<number> {
  const ends = await endsOf(sql);
  if (!ends) return 0;
  const upTo = Math.max(await lastBefore(sql, before, ends), await lastBeyond(sql, bytes, ends));
  let removed = 0;
  while (removed < limit) {
    const values: Value[] = [upTo, Math.min(PIECE_ROWS, limit - removed)];
    const { rows } = await behindFence(sql, epoch, () =>
      sql.run('DELETE FROM orchestrator_audit WHERE id <= ? ORDER BY id LIMIT ?', values),
    );
    if (rows === 0) break;
    removed += rows;
  }
  return removed;
}

/** Removes up to `limit` leases that had ended before that instant; returns how many. */
export async function dropEndedLeases(
  sql: Sql,
  epoch: number,
  before: number,
  limit: number,
): Promise<number> {
  const statement = 'DELETE FROM orchestrator_leases WHERE ended_at < FROM_UNIXTIME(? / 1000) LIMIT ?';
  const { rows } = await behindFence(sql, epoch, () => sql.run(statement, [before, limit]));
  return rows;
}

interface Ends {
  readonly first: number;
  readonly last: number;
}

/** The ids of the oldest and the newest audit row; undefined where there is none. */
async function endsOf(sql: Sql): Promise<Ends | undefined> {
  const [ends] = await sql.query<{ first: number | null; last: number | null }>(
    'SELECT MIN(id) AS first, MAX(id) AS last FROM orchestrator_audit',
  );
  return ends?.first == null || ends.last === null ? undefined : { first: ends.first, last: ends.last };
}

/**
 * The id up to which all audit rows are of earlier instants than `before`. Instants never decrease from row to row, so
 * the id is searched by halving; the first row is asked first, because mostly nothing is old enough.
 */
async function lastBefore(sql: Sql, before: number, { first, last }: Ends): Promise<number> {
  const isBefore = async (id: number): Promise<boolean> => {
    const select = 'SELECT at_ms FROM orchestrator_audit WHERE id <= ? ORDER BY id DESC LIMIT 1';
    const [row] = await sql.query<{ at_ms: number }>(select, [id]);
    return row !== undefined && row.at_ms < before;
  };
  if (!(await isBefore(first))) return 0;
  let low = first;
  let high = last;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (await isBefore(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

const SAMPLES = 16;
const SAMPLE_ROWS = 64;
/** Columns of a fixed size, and what the index and the pages take beside them. */
const ROW_BYTES = 100;
const ROW_SIZE = `OCTET_LENGTH(details) + OCTET_LENGTH(event_type) + 2 * OCTET_LENGTH(subject) + ${ROW_BYTES}`;

/** The id of the last row beyond `bytes`, estimated from samples: the exact size would take reading the whole table. */
async function lastBeyond(sql: Sql, bytes: number, { first, last }: Ends): Promise<number> {
  const rows = Math.floor(bytes / (await averageBytes(sql, first, last)));
  return Math.max(0, last - rows);
}

async function averageBytes(sql: Sql, first: number, last: number): Promise<number> {
  let rows = 0;
  let bytes = 0;
  for (let sample = 0; sample < SAMPLES; sample++) {
    const from = first + Math.floor((sample * (last - first)) / SAMPLES);
    const [found] = await sql.query<{ rows: number; bytes: string | null }>(
      `SELECT COUNT(*) AS \`rows\`, SUM(size) AS bytes FROM
        (SELECT ${ROW_SIZE} AS size FROM orchestrator_audit WHERE id >= ? ORDER BY id LIMIT ?) AS sample`,
      [from, SAMPLE_ROWS],
    );
    rows += found?.rows ?? 0;
    bytes += Number(found?.bytes ?? 0);
  }
  return bytes / rows;
}

function* piecesOf(ids: readonly number[]): Generator<readonly number[]> {
  for (let from = 0; from < ids.length; from += PIECE_ROWS) yield ids.slice(from, from + PIECE_ROWS);
}
