/** Writes one commit: the fence first, then the after-images of everything that changed, and the audit rows (docs/decisions/0008). */
import { FRESH_JOB } from '../../model/moves.ts';
import { nameBodies } from './blobs.ts';
import { chargeValues, PUT_CHARGE } from './charges.ts';
import { type AskImage, type Batch, freshRow, Images, movedRow, moveRow, namedBodies } from './images.ts';
import { ASK_COLUMNS, auditValues, FRESH_TEXT, JOB_COLUMNS, jobValues } from './rows.ts';
import { type Sql, transaction, type Value } from './sql.ts';

export type { Batch };

export const lastOf = ({ after, changes }: Batch): number => after + changes.length;

const list = (names: readonly string[]): string => names.join(', ');
const marks = (count: number): string => Array(count).fill('?').join(', ');
const replaced = (names: readonly string[]): string =>
  names.map((name) => `${name} = VALUES(${name})`).join(', ');

const ALL_COLUMNS = [...ASK_COLUMNS, ...JOB_COLUMNS];
export const PUT_JOB = `INSERT INTO orchestrator_jobs (${list(ALL_COLUMNS)}) VALUES (${marks(ALL_COLUMNS.length)})
  ON DUPLICATE KEY UPDATE ${replaced(ALL_COLUMNS.slice(1))}`;
/** Columns that a bulk submit need not send: they are the same for every job to which nothing has happened yet. */
const FRESH_LITERALS = jobValues(FRESH_JOB, FRESH_TEXT, 0)
  .slice(1)
  .map((value) => (typeof value === 'string' ? `'${value}'` : String(value)));
const PUT_FRESH_JOB = `INSERT INTO orchestrator_jobs (${list(ALL_COLUMNS)})
  VALUES (${marks(ASK_COLUMNS.length + 1)}, ${list(FRESH_LITERALS)})
  ON DUPLICATE KEY UPDATE ${replaced(ALL_COLUMNS.slice(1))}`;
const MOVE_JOB = `UPDATE orchestrator_jobs SET ${JOB_COLUMNS.map((name) => `${name} = ?`).join(', ')} WHERE uid = ?`;
const TOUCH_JOB = 'UPDATE orchestrator_jobs SET seq = ? WHERE uid = ?';
const ATTEMPT_COLUMNS = ['token', 'uid', 'n', 'is_open', 'record'];
export const PUT_ATTEMPT = `INSERT INTO orchestrator_attempts (${list(ATTEMPT_COLUMNS)}) VALUES (${marks(5)})
  ON DUPLICATE KEY UPDATE ${replaced(['is_open', 'record'])}`;
const DROP_ATTEMPT = 'DELETE FROM orchestrator_attempts WHERE token = ?';
const DROP_ATTEMPTS = 'DELETE FROM orchestrator_attempts WHERE uid = ?';
const PUT_FAILURE = `REPLACE INTO orchestrator_failures (id, seq, until_ms, record) VALUES (${marks(4)})`;
const DROP_FAILURE = 'DELETE FROM orchestrator_failures WHERE id = ?';
const PUT_LEASE = `INSERT INTO orchestrator_leases
  (token, agent_name, gpu_index, mode, expires_at, last_heartbeat, metadata, record, ended_at)
  VALUES (?, ?, ?, ?, FROM_UNIXTIME(? / 1000), FROM_UNIXTIME(? / 1000), ?, ?, NULL)
  ON DUPLICATE KEY UPDATE ${replaced(['agent_name', 'gpu_index', 'mode', 'expires_at', 'last_heartbeat', 'metadata', 'record', 'ended_at'])}`;
const MARK_LEASE = 'UPDATE orchestrator_leases SET ended_at = FROM_UNIXTIME(? / 1000) WHERE token = ?';
const POOL_COLUMNS = [
  ...['pool_id', 'agent_name', 'model_id', 'adapter', 'desired_workers', 'spawned_workers'],
  ...['started_at', 'last_heartbeat', 'status', 'hold_seconds', 'metadata'],
];
const PUT_WORKER_POOL = `INSERT INTO worker_pools (${list(POOL_COLUMNS)})
  VALUES (?, ?, ?, ?, ?, ?, FROM_UNIXTIME(? / 1000), FROM_UNIXTIME(? / 1000), ?, ?, ?)
  ON DUPLICATE KEY UPDATE ${replaced(POOL_COLUMNS.slice(1))}`;
const DROP_WORKER_POOL = 'DELETE FROM worker_pools WHERE pool_id = ?';
const PUT_RECORD = `INSERT INTO orchestrator_records (kind, id, record) VALUES (?, ?, ?)
  ON DUPLICATE KEY UPDATE record = VALUES(record)`;
const DROP_RECORD = 'DELETE FROM orchestrator_records WHERE kind = ? AND id = ?';
const DROP_LEASE = 'DELETE FROM orchestrator_leases WHERE token = ?';
const PUT_AUDIT = `INSERT INTO orchestrator_audit (id, event_type, details, epoch, at_ms, subject) VALUES (${marks(6)})`;
const FENCE = `UPDATE orchestrator_epoch SET last_seq = ?, last_at = ?, brain = COALESCE(?, brain)
  WHERE id = 1 AND epoch = ? AND last_seq = ?`;

const NOT_HELD = new Error('the fence did not hold');

/** Returns false where the fence did not hold: nothing of the batch is written then. */
export async function commitBatch(sql: Sql, batch: Batch, epoch: number): Promise<boolean> {
  const images = new Images(batch);
  try {
    await transaction(sql, async () => {
      const fence = sql.run(FENCE, [lastOf(batch), batch.now, images.brain, epoch, batch.after]);
      const charges = sql.batch(PUT_CHARGE, batch.charges.map(chargeValues));
      const rows = writeImages(sql, images, batch.now);
      await held(fence, [...rows, charges, writeAudit(sql, images, epoch, batch.now)]);
    });
    return true;
  } catch (error) {
    if (error === NOT_HELD) return false;
    throw error;
  }
}

/**
 * Rows are sent behind the fence statement before the server has answered it: a wait for each statement would cost
 * more than the rows. Where the fence did not hold, the transaction is rolled back, and errors of its rows are ignored.
 */
async function held(fence: Promise<{ rows: number }>, writes: readonly Promise<void>[]): Promise<void> {
  // Every statement is answered before the transaction ends, also where one has failed.
  const [first, ...others] = await Promise.allSettled([fence, ...writes]);
  if (first.status === 'rejected') throw first.reason;
  if (first.value.rows !== 1) throw NOT_HELD;
  for (const other of others) if (other.status === 'rejected') throw other.reason;
}

/**
 * New jobs of one statement, at most. The server inserts the rows of one statement while the next one is encoded here;
 * it is still busy with them when the audit rows are encoded, so those are one statement.
 */
const STATEMENT_ROWS = 128;

function putFreshJobs(sql: Sql, images: readonly AskImage[]): Promise<void>[] {
  const sent: Promise<void>[] = [];
  for (let from = 0; from < images.length; from += STATEMENT_ROWS) {
    sent.push(sql.batch(PUT_FRESH_JOB, images.slice(from, from + STATEMENT_ROWS).map(freshRow)));
  }
  return sent;
}

/** The order of these statements does not matter, except where one waits for another. */
function writeImages(sql: Sql, images: Images, now: number): Promise<void>[] {
  const fresh: AskImage[] = [];
  const moved: Value[][] = [];
  for (const image of images.asks.values()) {
    if (image.moved) moved.push(movedRow(image.asked, image.moved, image.seq));
    else fresh.push(image);
  }
  return [
    ...putFreshJobs(sql, fresh),
    sql.batch(PUT_JOB, moved),
    sql.batch(
      MOVE_JOB,
      [...images.moves].map(([uid, move]) => moveRow(uid, move)),
    ),
    sql.batch(
      TOUCH_JOB,
      [...images.touched].map(([uid, seq]) => [seq, uid]),
    ),
    nameBodies(sql, namedBodies(images)),
    writeAttempts(sql, images),
    ...putOrDrop(sql, images.failures, PUT_FAILURE, DROP_FAILURE),
    ...putOrDrop(sql, images.leases, PUT_LEASE, DROP_LEASE),
    sql.batch(
      MARK_LEASE,
      [...images.expiredLeases].map((token) => [now, token]),
    ),
    ...putOrDrop(sql, images.workerPools, PUT_WORKER_POOL, DROP_WORKER_POOL),
    ...writeKept(sql, images),
  ];
}

const writeAudit = (sql: Sql, { numbered }: Images, epoch: number, now: number): Promise<void> =>
  sql.batch(
    PUT_AUDIT,
    numbered.map(({ change, text, seq }) => auditValues(change, text, seq, epoch, now)),
  );

async function writeAttempts(sql: Sql, { renewed, attempts, droppedAttempts }: Images): Promise<void> {
  if (renewed.length > 0) await sql.batch(DROP_ATTEMPTS, renewed);
  await sql.batch(DROP_ATTEMPT, droppedAttempts);
  await sql.batch(PUT_ATTEMPT, [...attempts.values()]);
}

function writeKept(sql: Sql, { kept }: Images): Promise<void>[] {
  const put: Value[][] = [];
  const dropped: Value[][] = [];
  for (const { kind, id, text } of kept.values()) {
    if (text === undefined) dropped.push([kind, id]);
    else put.push([kind, id, text]);
  }
  return [sql.batch(PUT_RECORD, put), sql.batch(DROP_RECORD, dropped)];
}

function putOrDrop(
  sql: Sql,
  records: ReadonlyMap<string, Value[] | null>,
  put: string,
  drop: string,
): Promise<void>[] {
  const kept: Value[][] = [];
  const dropped: Value[][] = [];
  for (const [id, values] of records) values ? kept.push(values) : dropped.push([id]);
  return [sql.batch(put, kept), sql.batch(drop, dropped)];
}
