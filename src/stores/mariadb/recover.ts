/** Reads what the tables hold: live jobs with their attempts, and the records that belong to no job. */
import type { LooseRecord, Recovery } from '../../core/ports/store.ts';
import { OrchdError } from '../../model/errors.ts';
import type { BrainRecord, SmallKind } from '../../model/records.ts';
import { upcast } from '../../model/upcast.ts';
import { attemptsOf, JOB_ROW } from './history.ts';
import { bundleOfRow, type JobRow } from './rows.ts';
import { type Sql, transaction } from './sql.ts';

export interface EpochRow {
  readonly epoch: number;
  readonly last_seq: number;
  readonly last_at: number;
  readonly brain: string | null;
}

const LIVE = `SELECT ${JOB_ROW}, attempts FROM orchestrator_jobs WHERE is_terminal = 0`;
/** Ended jobs of which an attempt still holds a slot. */
const HELD = `SELECT ${JOB_ROW}, attempts FROM orchestrator_jobs
  WHERE is_terminal = 1 AND uid IN (SELECT uid FROM orchestrator_attempts WHERE is_open = 1)`;

interface LiveRow extends JobRow {
  readonly attempts: number;
}

const ROW = 'SELECT epoch, last_seq, last_at, brain FROM orchestrator_epoch WHERE id = 1';

/** Takes the lead by force: raises the epoch, so that the former leader can write nothing from here on. */
export async function takeOver(sql: Sql): Promise<EpochRow> {
  return transaction(sql, async () => {
    const row = only(await sql.query<EpochRow>(`${ROW} FOR UPDATE`));
    await sql.run(
      `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
         WHERE id = 1`,
    );
    return { ...row, epoch: row.epoch + 1 };
  });
}

/** Returns the fence row of the lead that this node has won, unless another node leads by now. */
export async function confirmLead(sql: Sql, epoch: number): Promise<EpochRow> {
  const row = only(await sql.query<EpochRow>(ROW));
  if (row.epoch !== epoch) throw new OrchdError('FENCED');
  return row;
}

function only(rows: readonly EpochRow[]): EpochRow {
  const [row] = rows;
  if (!row) throw new OrchdError('STORE_CORRUPT', 'the row of the epoch is missing');
  return row;
}

/** Live jobs, with their attempts. */
export async function recoverJobs(sql: Sql, into: Recovery): Promise<void> {
  const rows = await sql.query<LiveRow>(LIVE);
  for (const row of await sql.query<LiveRow>(HELD)) rows.push(row);
  // Most waiting jobs were never tried: their attempts need not be selected.
  const tried = rows.filter(({ attempts }) => attempts > 0).map(({ uid }) => uid);
  const attempts = await attemptsOf(sql, tried);
  for (const row of rows) into.job(bundleOfRow(row, attempts.get(row.uid) ?? []));
}

/** Reads the records that belong to no job, except the brain record, which is a column of orchestrator_epoch. */
export async function recoverOthers(sql: Sql, into: Recovery): Promise<void> {
  const failures = await sql.query<{ id: string; record: string }>(
    'SELECT id, record FROM orchestrator_failures ORDER BY seq',
  );
  for (const { id, record } of failures) {
    into.record({ kind: 'failure', id, after: upcast('failure', JSON.parse(record) as never) });
  }
  const leases = await sql.query<{ token: string; record: string }>(
    'SELECT token, record FROM orchestrator_leases WHERE ended_at IS NULL ORDER BY token',
  );
  for (const { token, record } of leases) {
    into.record({ kind: 'lease', id: token, after: upcast('lease', JSON.parse(record) as never) });
  }
  const kept = await sql.query<{ kind: SmallKind; id: string; record: string }>(
    'SELECT kind, id, record FROM orchestrator_records ORDER BY kind, id',
  );
  for (const { kind, id, record } of kept) {
    into.record({ kind, id, after: upcast(kind, JSON.parse(record) as never) } as LooseRecord);
  }
}

export const brainOf = ({ brain }: EpochRow): BrainRecord | undefined =>
  brain === null ? undefined : upcast('brain', JSON.parse(brain) as never);
