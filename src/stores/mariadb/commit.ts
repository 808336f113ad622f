/** One commit: the fence first, then the after-images of everything that changed, and the trail. */

import { FRESH_JOB } from '../../model/moves.ts';
import { type AskRecord, type Change, type JobRecord, keptName } from '../../model/records.ts';
import {
  ASK_COLUMNS,
  askValues,
  attemptValues,
  auditValues,
  FRESH_TEXT,
  JOB_COLUMNS,
  jobValues,
  leaseValues,
  textOf,
} from './rows.ts';
import { type Sql, transaction, type Value } from './sql.ts';

/** Changes that become durable together. */
export interface Batch {
  readonly changes: readonly Change[];
  /** The sequence before the first of them. */
  readonly after: number;
  readonly now: number;
}

export const lastOf = ({ after, changes }: Batch): number => after + changes.length;

const list = (names: readonly string[]): string => names.join(', ');
const marks = (count: number): string => Array(count).fill('?').join(', ');
const replaced = (names: readonly string[]): string =>
  names.map((name) => `${name} = VALUES(${name})`).join(', ');

const ALL_COLUMNS = [...ASK_COLUMNS, ...JOB_COLUMNS];
export const PUT_JOB = `INSERT INTO orchestrator_jobs (${list(ALL_COLUMNS)}) VALUES (${marks(ALL_COLUMNS.length)})
  ON DUPLICATE KEY UPDATE ${replaced(ALL_COLUMNS.slice(1))}`;
const MOVE_JOB = `UPDATE orchestrator_jobs SET ${JOB_COLUMNS.map((name) => `${name} = ?`).join(', ')} WHERE uid = ?`;
const TOUCH_JOB = 'UPDATE orchestrator_jobs SET seq = ? WHERE uid = ?';
const ATTEMPT_COLUMNS = ['token', 'uid', 'n', 'is_open', 'record'];
export const PUT_ATTEMPT = `INSERT INTO orchestrator_attempts (${list(ATTEMPT_COLUMNS)}) VALUES (${marks(5)})
  ON DUPLICATE KEY UPDATE ${replaced(['is_open', 'record'])}`;
const DROP_ATTEMPTS = 'DELETE FROM orchestrator_attempts WHERE uid = ?';
const PUT_FAILURE = `REPLACE INTO orchestrator_failures (id, seq, until_ms, record) VALUES (${marks(4)})`;
const DROP_FAILURE = 'DELETE FROM orchestrator_failures WHERE id = ?';
const PUT_LEASE = `INSERT INTO orchestrator_leases
  (token, agent_name, gpu_index, mode, expires_at, last_heartbeat, metadata, record)
  VALUES (?, ?, ?, ?, FROM_UNIXTIME(? / 1000), FROM_UNIXTIME(? / 1000), ?, ?)
  ON DUPLICATE KEY UPDATE ${replaced(['agent_name', 'gpu_index', 'mode', 'expires_at', 'last_heartbeat', 'metadata', 'record'])}`;
const PUT_RECORD = `INSERT INTO orchestrator_records (kind, id, record) VALUES (?, ?, ?)
  ON DUPLICATE KEY UPDATE record = VALUES(record)`;
const DROP_RECORD = 'DELETE FROM orchestrator_records WHERE kind = ? AND id = ?';
const DROP_LEASE = 'DELETE FROM orchestrator_leases WHERE token = ?';
const PUT_AUDIT = `INSERT INTO orchestrator_audit (id, event_type, details, epoch, at_ms, subject) VALUES (${marks(6)})`;
const FENCE = `UPDATE orchestrator_epoch SET last_seq = ?, last_at = ?, brain = COALESCE(?, brain)
  WHERE id = 1 AND epoch = ? AND last_seq = ?`;

/** What has become of a job: its record, as an object and as a text. */
interface Move {
  readonly job: JobRecord;
  readonly text: string;
  readonly seq: number;
}

/** What a batch comes to, record by record: only the last image of each counts. */
class Images {
  readonly asks = new Map<string, { values: Value[]; move: Move }>();
  readonly jobs = new Map<string, Move>();
  readonly touched = new Map<string, number>();
  /** Jobs whose former attempts no longer count. */
  readonly renewed: Value[][] = [];
  readonly attempts = new Map<string, Value[]>();
  readonly failures = new Map<string, Value[] | null>();
  readonly leases = new Map<string, Value[] | null>();
  /** Of the kept kinds; without its text where it is removed. */
  readonly kept = new Map<string, { kind: string; id: string; text: string | undefined }>();
  readonly audit: Value[][] = [];
  brain: string | null = null;

  constructor({ changes, after, now }: Batch, epoch: number) {
    let seq = after;
    for (const change of changes) {
      const text = textOf(change);
      this.#note(change, text, ++seq);
      this.audit.push(auditValues(change, text, seq, epoch, now));
    }
  }

  #note(change: Change, text: string, seq: number): void {
    const { id } = change;
    switch (change.kind) {
      case 'ask':
        if (change.after) this.#noteAsk(id, change.after, text, seq);
        return;
      case 'job':
        if (change.after) this.#noteJob(id, { job: change.after, text, seq });
        return;
      case 'attempt':
        if (!change.after) return;
        this.attempts.set(id, attemptValues(id, change.after, text));
        this.#touch(change.after.job, seq);
        return;
      case 'failure':
        this.failures.delete(id);
        this.failures.set(id, change.after && [id, seq, change.after.until, text]);
        return;
      case 'brain':
        if (change.after) this.brain = text;
        return;
      case 'lease':
        this.leases.set(id, change.after && leaseValues(id, change.after, text));
        return;
      default:
        this.kept.set(keptName(change.kind, id), {
          kind: change.kind,
          id,
          text: change.after ? text : undefined,
        });
    }
  }

  /** An id may come back, redriven or chosen again: what was noted of its former life is over. */
  #noteAsk(uid: string, ask: AskRecord, text: string, seq: number): void {
    // Ids of our own come back only by a redrive, which brings their attempts again.
    if (ask.hash !== undefined || ask.n !== seq) this.#renew(uid);
    const move = { job: FRESH_JOB, text: FRESH_TEXT, seq };
    this.asks.set(uid, { values: askValues(uid, ask, text), move });
  }

  #renew(uid: string): void {
    this.renewed.push([uid]);
    const isNoted = this.asks.has(uid) || this.jobs.has(uid) || this.touched.has(uid);
    if (!isNoted) return;
    this.jobs.delete(uid);
    this.touched.delete(uid);
    for (const [token, values] of this.attempts) if (values[1] === uid) this.attempts.delete(token);
  }

  #noteJob(uid: string, move: Move): void {
    const asked = this.asks.get(uid);
    if (asked) asked.move = move;
    else this.jobs.set(uid, move);
  }

  #touch(uid: string, seq: number): void {
    const asked = this.asks.get(uid);
    const moved = this.jobs.get(uid);
    if (asked) asked.move = { ...asked.move, seq };
    else if (moved) this.jobs.set(uid, { ...moved, seq });
    else this.touched.set(uid, seq);
  }
}

const NOT_HELD = new Error('the fence did not hold');

/** False where the fence did not hold: nothing of the batch is written then. */
export async function commitBatch(sql: Sql, batch: Batch, epoch: number): Promise<boolean> {
  const images = new Images(batch, epoch);
  try {
    await transaction(sql, async () => {
      const fence = sql.run(FENCE, [lastOf(batch), batch.now, images.brain, epoch, batch.after]);
      await held(fence, writeImages(sql, images));
    });
    return true;
  } catch (error) {
    if (error === NOT_HELD) return false;
    throw error;
  }
}

/**
 * The rows are sent behind the fence before it is answered: a wait for each would cost more than the rows. What was
 * written behind a fence that did not hold is rolled back, and whatever else went wrong with it is no matter.
 */
async function held(fence: Promise<{ rows: number }>, writes: readonly Promise<void>[]): Promise<void> {
  // All of them are over before the transaction ends, also where one has failed.
  const [first, ...others] = await Promise.allSettled([fence, ...writes]);
  if (first.status === 'rejected') throw first.reason;
  if (first.value.rows !== 1) throw NOT_HELD;
  for (const other of others) if (other.status === 'rejected') throw other.reason;
}

const moveValues = ({ job, text, seq }: Move): Value[] => jobValues(job, text, seq);

/** Of these any may happen before any other, except where one waits. */
function writeImages(sql: Sql, images: Images): Promise<void>[] {
  const touched = [...images.touched].filter(([uid]) => !images.jobs.has(uid));
  return [
    sql.batch(
      PUT_JOB,
      [...images.asks.values()].map(({ values, move }) => [...values, ...moveValues(move)]),
    ),
    sql.batch(
      MOVE_JOB,
      [...images.jobs].map(([uid, move]) => [...moveValues(move), uid]),
    ),
    sql.batch(
      TOUCH_JOB,
      touched.map(([uid, seq]) => [seq, uid]),
    ),
    writeAttempts(sql, images),
    ...putOrDrop(sql, images.failures, PUT_FAILURE, DROP_FAILURE),
    ...putOrDrop(sql, images.leases, PUT_LEASE, DROP_LEASE),
    ...writeKept(sql, images),
    sql.batch(PUT_AUDIT, images.audit),
  ];
}

async function writeAttempts(sql: Sql, { renewed, attempts }: Images): Promise<void> {
  if (renewed.length > 0) await sql.batch(DROP_ATTEMPTS, renewed);
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
