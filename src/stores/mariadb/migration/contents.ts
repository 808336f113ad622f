/** Reads the tables for a move: every job with all its attempts, and the other records as an opening store reads them. */

import type { SessionKey } from '../../../core/ports/keys.ts';
import type { JobBundle } from '../../../core/ports/store.ts';
import type { BlobRef } from '../../../model/body.ts';
import type { Charge } from '../../../model/charge.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { BrainRecord } from '../../../model/records.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import {
  CHARGES_PER_PAGE,
  JOBS_PER_PAGE,
  SESSIONS_PER_PAGE,
  type StoreContents,
  type StoreHead,
} from '../../migration/contents.ts';
import { type OtherRecord, Records } from '../../records.ts';
import { readSession } from '../../session-text.ts';
import { readBlob } from '../blobs.ts';
import { chargePage } from '../charges.ts';
import { bundles, JOB_ROW } from '../history.ts';
import { keyPages } from '../keys.ts';
import { brainOf, type EpochRow, recoverOthers } from '../recover.ts';
import type { JobRow } from '../rows.ts';
import { MIGRATIONS } from '../schema.ts';
import { type Sql, transaction } from '../sql.ts';
import { versionOf } from '../tables.ts';
import { readMarked, refuseUnfinished } from '../unfinished.ts';

export const EPOCH_ROW = 'SELECT epoch, last_seq, last_at, brain FROM orchestrator_epoch WHERE id = 1';
// In the order of the primary key: no index has all jobs in the order they were admitted.
const NEXT_JOBS = `SELECT ${JOB_ROW} FROM orchestrator_jobs WHERE uid > ? ORDER BY uid LIMIT ${JOBS_PER_PAGE}`;

const NEXT_SESSIONS = `SELECT name, record FROM orchestrator_sessions WHERE name > ? ORDER BY name LIMIT ${SESSIONS_PER_PAGE}`;

interface SessionRow {
  readonly name: string;
  readonly record: string;
}

export class MariaDbContents implements StoreContents {
  readonly place: string;
  readonly head: StoreHead;
  readonly others: readonly OtherRecord[];
  readonly jobCount: number;
  readonly #sql: Sql;
  readonly #epoch: number;
  readonly #ownsConnection: boolean;

  constructor(place: string, sql: Sql, read: ReadTables, ownsConnection = false) {
    this.place = place;
    this.head = read.head;
    this.others = read.others;
    this.jobCount = read.jobCount;
    this.#sql = sql;
    this.#epoch = read.row.epoch;
    this.#ownsConnection = ownsConnection;
  }

  /** Opens the tables as the source of a move; owns the connection, and refuses tables of an unfinished move. */
  static async open(sql: Sql, place: string): Promise<MariaDbContents> {
    await refuseOther(sql, place);
    return new MariaDbContents(place, sql, await readTables(sql, place, await epochRow(sql)), true);
  }

  /** Reads over a connection that the caller closes. */
  static async read(sql: Sql, place: string): Promise<MariaDbContents> {
    return new MariaDbContents(place, sql, await readTables(sql, place, await epochRow(sql)));
  }

  /** Raises the epoch first, so that the leader can write nothing from here on. */
  async hold(): Promise<MariaDbContents> {
    const sql = this.#sql;
    const row = await transaction(sql, async () => {
      await sql.run('UPDATE orchestrator_epoch SET epoch = epoch + 1 WHERE id = 1');
      return epochRow(sql);
    });
    return new MariaDbContents(this.place, sql, await readTables(sql, this.place, row));
  }

  async *jobs(): AsyncGenerator<readonly JobBundle[]> {
    for (let last: string | undefined = ''; last !== undefined; ) {
      const rows: JobRow[] = await this.#sql.query<JobRow>(NEXT_JOBS, [last]);
      last = rows.at(-1)?.uid;
      if (rows.length > 0) yield bundles(this.#sql, rows);
    }
  }

  async *charges(): AsyncGenerator<readonly Charge[]> {
    const all = { from: 0, to: Number.MAX_SAFE_INTEGER };
    let page = await chargePage(this.#sql, all, undefined, CHARGES_PER_PAGE);
    for (; page.length > 0; page = await chargePage(this.#sql, all, page.at(-1), CHARGES_PER_PAGE))
      yield page;
  }

  async *sessions(): AsyncGenerator<readonly SessionRecord[]> {
    for (let last: string | undefined = ''; last !== undefined; ) {
      const rows: SessionRow[] = await this.#sql.query<SessionRow>(NEXT_SESSIONS, [last]);
      last = rows.at(-1)?.name;
      if (rows.length > 0) yield rows.map(({ record }) => readSession(record));
    }
  }

  keys(): AsyncIterable<readonly SessionKey[]> {
    return keyPages(this.#sql);
  }

  async readBody(ref: BlobRef): Promise<string> {
    return (await readBlob(this.#sql, ref)).toString();
  }

  async assertHeld(): Promise<void> {
    const { epoch, last_seq } = await epochRow(this.#sql);
    if (epoch === this.#epoch && last_seq === this.head.seq) return;
    throw new OrchdError(
      'FENCED',
      `an orchd was started on ${this.place} meanwhile: stop it, then try again`,
    );
  }

  async close(): Promise<void> {
    if (this.#ownsConnection) await this.#sql.close();
  }
}

interface ReadTables {
  readonly row: EpochRow;
  readonly head: StoreHead;
  readonly others: readonly OtherRecord[];
  readonly jobCount: number;
}

async function refuseOther(sql: Sql, place: string): Promise<void> {
  if (!(await hasTables(sql))) throw nothingIn(place);
  const version = await versionOf(sql);
  if (version !== MIGRATIONS.length) {
    const message = `the tables in ${place} have version ${version}, not ${MIGRATIONS.length}: run \`orchd migrate\` on them first`;
    throw new OrchdError('INVALID_PARAMS', message);
  }
  await refuseUnfinished(sql);
}

export async function hasTables(sql: Sql): Promise<boolean> {
  const named = "table_schema = DATABASE() AND table_name = 'orchestrator_epoch'";
  return (await sql.query(`SELECT 1 FROM information_schema.tables WHERE ${named}`)).length > 0;
}

async function epochRow(sql: Sql): Promise<EpochRow> {
  const [row] = await sql.query<EpochRow>(EPOCH_ROW);
  if (!row) throw new OrchdError('STORE_CORRUPT', 'the row of the epoch is missing');
  return row;
}

const nothingIn = (place: string): OrchdError =>
  new OrchdError('NOT_FOUND', `${place} holds no work of orchd`);

async function readTables(sql: Sql, place: string, row: EpochRow): Promise<ReadTables> {
  const brain = futureBrain(row);
  if (!brain) throw nothingIn(place);
  const records = new Records();
  await recoverOthers(sql, records);
  const [count] = await sql.query<{ jobs: number }>('SELECT COUNT(*) AS jobs FROM orchestrator_jobs');
  const epoch = Math.max(row.epoch, brain.epoch);
  return {
    row,
    head: { seq: row.last_seq, at: row.last_at, epoch, brain },
    others: [...records.others.values()],
    jobCount: count?.jobs ?? 0,
  };
}

/** The brain record; for tables of an unfinished move, the record that finishes it. */
const futureBrain = (row: EpochRow): BrainRecord | undefined => readMarked(row.brain)?.brain ?? brainOf(row);
