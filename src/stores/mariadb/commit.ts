/** One commit: the fence first, then the after-images of everything that changed, and the trail. */

import { FRESH_JOB } from '../../model/moves.ts';
import type { AskRecord, Change, JobRecord } from '../../model/records.ts';
import { ASK_COLUMNS, askValues, attemptValues, auditValues, JOB_COLUMNS, jobValues } from './rows.ts';
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
const PUT_AUDIT = `INSERT INTO orchestrator_audit (id, event_type, details, epoch, at_ms, subject) VALUES (${marks(6)})`;
const FENCE = `UPDATE orchestrator_epoch SET last_seq = ?, last_at = ?, brain = COALESCE(?, brain)
  WHERE id = 1 AND epoch = ? AND last_seq = ?`;

/** What a batch comes to, record by record: only the last image of each counts. */
class Images {
  readonly asks = new Map<string, { values: Value[]; job: JobRecord; seq: number }>();
  readonly jobs = new Map<string, { job: JobRecord; seq: number }>();
  readonly touched = new Map<string, number>();
  /** Jobs whose former attempts no longer count. */
  readonly renewed: Value[][] = [];
  readonly attempts = new Map<string, Value[]>();
  readonly failures = new Map<string, Value[] | null>();
  readonly audit: Value[][] = [];
  brain: string | null = null;

  constructor({ changes, after, now }: Batch, epoch: number) {
    let seq = after;
    for (const change of changes) {
      this.#note(change, ++seq);
      this.audit.push(auditValues(change, seq, epoch, now));
    }
  }

  #note(change: Change, seq: number): void {
    const { id } = change;
    switch (change.kind) {
      case 'ask':
        if (change.after) this.#noteAsk(id, change.after, seq);
        return;
      case 'job':
        if (change.after) this.#noteJob(id, change.after, seq);
        return;
      case 'attempt':
        if (!change.after) return;
        this.attempts.set(id, attemptValues(id, change.after));
        this.#touch(change.after.job, seq);
        return;
      case 'failure':
        this.failures.delete(id);
        this.failures.set(id, change.after && [id, seq, change.after.until, JSON.stringify(change.after)]);
        return;
      case 'brain':
        if (change.after) this.brain = JSON.stringify(change.after);
        return;
    }
  }

  /** An id may come back, redriven or chosen again: what was noted of its former life is over. */
  #noteAsk(uid: string, ask: AskRecord, seq: number): void {
    this.jobs.delete(uid);
    this.touched.delete(uid);
    for (const [token, values] of this.attempts) if (values[1] === uid) this.attempts.delete(token);
    // Ids of our own come back only by a redrive, which brings their attempts again.
    if (ask.hash !== undefined || ask.n !== seq) this.renewed.push([uid]);
    this.asks.set(uid, { values: askValues(uid, ask), job: FRESH_JOB, seq });
  }

  #noteJob(uid: string, job: JobRecord, seq: number): void {
    const asked = this.asks.get(uid);
    if (asked) this.asks.set(uid, { ...asked, job, seq });
    else this.jobs.set(uid, { job, seq });
  }

  #touch(uid: string, seq: number): void {
    const asked = this.asks.get(uid);
    const moved = this.jobs.get(uid);
    if (asked) this.asks.set(uid, { ...asked, seq });
    else if (moved) this.jobs.set(uid, { ...moved, seq });
    else this.touched.set(uid, seq);
  }
}

/** False where the fence did not hold: nothing of the batch is written then. */
export function commitBatch(sql: Sql, batch: Batch, epoch: number): Promise<boolean> {
  const images = new Images(batch, epoch);
  return transaction(sql, async () => {
    const fence = await sql.run(FENCE, [lastOf(batch), batch.now, images.brain, epoch, batch.after]);
    if (fence.rows === 1) await writeImages(sql, images);
    return fence.rows === 1;
  });
}

async function writeImages(sql: Sql, images: Images): Promise<void> {
  await sql.batch(
    PUT_JOB,
    [...images.asks.values()].map(({ values, job, seq }) => [...values, ...jobValues(job, seq)]),
  );
  await sql.batch(
    MOVE_JOB,
    [...images.jobs].map(([uid, { job, seq }]) => [...jobValues(job, seq), uid]),
  );
  const touched = [...images.touched].filter(([uid]) => !images.jobs.has(uid));
  await sql.batch(
    TOUCH_JOB,
    touched.map(([uid, seq]) => [seq, uid]),
  );
  await sql.batch(DROP_ATTEMPTS, images.renewed);
  await sql.batch(PUT_ATTEMPT, [...images.attempts.values()]);
  const put: Value[][] = [];
  const dropped: Value[][] = [];
  for (const [id, values] of images.failures) values ? put.push(values) : dropped.push([id]);
  await sql.batch(PUT_FAILURE, put);
  await sql.batch(DROP_FAILURE, dropped);
  await sql.batch(PUT_AUDIT, images.audit);
}
