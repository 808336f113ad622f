/** Writes the tables for a move: jobs as rows, other records as commits, all of it behind the fence. */

import type { SessionKey } from '../../../core/ports/keys.ts';
import type { BlobRef, Body } from '../../../model/body.ts';
import type { Charge } from '../../../model/charge.ts';
import { OrchdError } from '../../../model/errors.ts';
import { keptBody } from '../../../model/kept-body.ts';
import { BRAIN_ID, type Change, scoped, tokenOf } from '../../../model/records.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import type {
  LoadedJob,
  MigrationTarget,
  StoreContents,
  StoreHead,
  TargetState,
} from '../../migration/contents.ts';
import { withBodies } from '../../migration/load-bodies.ts';
import { invalidated, type MigrationMark } from '../../migration/mark.ts';
import type { OtherRecord } from '../../records.ts';
import { bodiesOf, nameBodies, putBlob } from '../blobs.ts';
import { chargeValues, PUT_CHARGE } from '../charges.ts';
import { commitBatch, PUT_ATTEMPT, PUT_JOB } from '../commit.ts';
import { behindFence } from '../fence.ts';
import { HOLD_FENCE } from '../history.ts';
import { putKey } from '../keys.ts';
import type { EpochRow } from '../recover.ts';
import { askText, askValues, attemptValues, jobValues } from '../rows.ts';
import { PUT_SESSION, sessionValues } from '../sessions.ts';
import { type Sql, transaction } from '../sql.ts';
import { bringUp, checkDurable } from '../tables.ts';
import { markedBrain, readMarked } from '../unfinished.ts';
import { EPOCH_ROW, hasTables, MariaDbContents } from './contents.ts';

/** Changes of one commit. */
const BATCH = 1000;
/** Tables with the version and the fence, which are never emptied. */
const KEPT_ALWAYS = ['orchestrator_schema', 'orchestrator_epoch'];
/** Tables with the jobs that an earlier try of the same move has written. */
const KEPT_JOBS = [
  'orchestrator_jobs',
  'orchestrator_attempts',
  'orchestrator_blobs',
  'orchestrator_blob_parts',
];

export class MariaDbTarget implements MigrationTarget {
  readonly place: string;
  readonly #sql: Sql;
  #epoch = 0;
  #seq = 0;
  #mark: MigrationMark | undefined;
  #head: StoreHead | undefined;

  constructor(sql: Sql, place: string) {
    this.#sql = sql;
    this.place = place;
  }

  /** The target owns the connection and closes it. */
  static async open(sql: Sql, place: string, unsafe: boolean): Promise<MariaDbTarget> {
    await checkDurable(sql, unsafe);
    return new MariaDbTarget(sql, place);
  }

  async inspect(): Promise<TargetState> {
    if (!(await hasTables(this.#sql))) return { is: 'empty' };
    const [row] = await this.#sql.query<EpochRow>(EPOCH_ROW);
    return found(row);
  }

  async begin(mark: MigrationMark, head: StoreHead, keep: boolean): Promise<void> {
    const sql = this.#sql;
    await bringUp(sql);
    this.#mark = mark;
    this.#head = head;
    await this.#takeOver(keep ? mark : invalidated(mark), head);
    const kept = keep ? [...KEPT_ALWAYS, ...KEPT_JOBS] : KEPT_ALWAYS;
    for (const table of await ownTables(sql)) if (!kept.includes(table)) await empty(sql, table);
    await this.#setMark(mark);
  }

  async has(uids: readonly string[]): Promise<ReadonlySet<string>> {
    const marks = uids.map(() => '?').join(',');
    const select = `SELECT uid FROM orchestrator_jobs WHERE uid IN (${marks})`;
    const rows = uids.length === 0 ? [] : await this.#sql.query<{ uid: string }>(select, uids);
    return new Set(rows.map(({ uid }) => uid));
  }

  async put(jobs: readonly LoadedJob[]): Promise<void> {
    if (jobs.length === 0) return;
    const sql = this.#sql;
    await transaction(sql, async () => {
      const fence = await sql.run(HOLD_FENCE, [this.#epoch]);
      if (fence.rows !== 1) throw this.#fenced();
      const bundles = [];
      for (const { bundle, payload, kept } of jobs) {
        bundles.push(withBodies(bundle, await this.#store(payload), await this.#store(kept)));
      }
      await sql.batch(
        PUT_JOB,
        bundles.map(({ uid, ask, job, seq }) => [
          ...askValues(uid, ask, askText(ask)),
          ...jobValues(job, JSON.stringify(job), seq),
        ]),
      );
      await nameBodies(
        sql,
        bundles.flatMap(({ uid, ask, job }) => bodiesOf(uid, ask.payload, keptBody(job))),
      );
      await sql.batch(
        PUT_ATTEMPT,
        bundles.flatMap(({ uid, attempts }) =>
          attempts.map((attempt) => attemptValues(tokenOf(uid, attempt.n), attempt, JSON.stringify(attempt))),
        ),
      );
    });
  }

  async putCharges(charges: readonly Charge[]): Promise<void> {
    const sql = this.#sql;
    await transaction(sql, async () => {
      const fence = await sql.run(HOLD_FENCE, [this.#epoch]);
      if (fence.rows !== 1) throw this.#fenced();
      await sql.batch(PUT_CHARGE, charges.map(chargeValues));
    });
  }

  async putSessions(sessions: readonly SessionRecord[]): Promise<void> {
    await behindFence(this.#sql, this.#epoch, () =>
      this.#sql.batch(PUT_SESSION, sessions.map(sessionValues)),
    );
  }

  putBody(text: string, { tenant, id }: SessionRecord): Promise<BlobRef> {
    return putBlob(this.#sql, text, { session: scoped(tenant, id) });
  }

  async putKeys(keys: readonly SessionKey[]): Promise<void> {
    for (const key of keys) await putKey(this.#sql, key, this.#epoch);
  }

  async seal(others: readonly OtherRecord[]): Promise<void> {
    const changes = others.map((record): Change => ({ ...record, cause: 'moved' }));
    for (let from = 0; from < changes.length; from += BATCH) {
      await this.#commit(changes.slice(from, from + BATCH));
    }
  }

  contents(): Promise<StoreContents> {
    return MariaDbContents.read(this.#sql, this.place);
  }

  /** Writes the brain record in the place of the mark. */
  async finish(): Promise<void> {
    const { brain } = this.#head as StoreHead;
    await this.#commit([{ kind: 'brain', id: BRAIN_ID, after: brain, cause: 'moved' }]);
  }

  async invalidate(): Promise<void> {
    await this.#setMark(invalidated(this.#mark as MigrationMark));
  }

  close(): Promise<void> {
    return this.#sql.close();
  }

  /** Raises the epoch and marks the tables in one transaction, unless they have changed since inspect(). */
  async #takeOver(mark: MigrationMark, head: StoreHead): Promise<void> {
    const sql = this.#sql;
    await transaction(sql, async () => {
      const [row] = await sql.query<EpochRow>(`${EPOCH_ROW} FOR UPDATE`);
      const now = found(row);
      if (now.is === 'work' || (now.is === 'unfinished' && now.mark.owner !== mark.owner))
        throw this.#fenced();
      this.#epoch = Math.max((row?.epoch ?? 0) + 1, head.epoch);
      this.#seq = head.seq;
      await sql.run(
        'UPDATE orchestrator_epoch SET epoch = ?, last_seq = ?, last_at = ?, brain = ? WHERE id = 1',
        [this.#epoch, head.seq, head.at, markedBrain(mark, head.brain)],
      );
    });
  }

  async #setMark(mark: MigrationMark): Promise<void> {
    const { brain } = this.#head as StoreHead;
    const { rows } = await this.#sql.run(
      'UPDATE orchestrator_epoch SET brain = ? WHERE id = 1 AND epoch = ?',
      [markedBrain(mark, brain), this.#epoch],
    );
    if (rows !== 1) throw this.#fenced();
  }

  async #commit(changes: readonly Change[]): Promise<void> {
    const { at } = this.#head as StoreHead;
    const batch = { changes, charges: [], after: this.#seq, now: at };
    if (!(await commitBatch(this.#sql, batch, this.#epoch))) throw this.#fenced();
    this.#seq += changes.length;
  }

  async #store(text: string | undefined): Promise<Body | undefined> {
    if (text === undefined) return undefined;
    return putBlob(this.#sql, text);
  }

  #fenced(): OrchdError {
    return new OrchdError('FENCED', `another process writes to ${this.place}: stop it, then try again`);
  }
}

/** Tables that were only opened, without any commit, count as empty. */
function found(row: EpochRow | undefined): TargetState {
  const marked = readMarked<MigrationMark>(row?.brain ?? null);
  if (marked) return { is: 'unfinished', mark: marked.moving };
  return !row || (row.last_seq === 0 && row.brain === null) ? { is: 'empty' } : { is: 'work' };
}

async function ownTables(sql: Sql): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND (table_name = 'worker_pools' OR table_name LIKE 'orchestrator\\_%')",
  );
  return rows.map(({ name }) => name);
}

/** Truncates a table that has rows: truncating needs more rights than writing, so an empty table is left alone. */
async function empty(sql: Sql, table: string): Promise<void> {
  const rows = await sql.query(`SELECT 1 FROM ${table} LIMIT 1`);
  if (rows.length > 0) await sql.run(`TRUNCATE ${table}`);
}
