/** From the tables to a state: live jobs with their attempts, the failure cache, the brain. */
import { JobEntry, PAST_ATTEMPTS, type WritableRecords } from '../../core/state/job-entry.ts';
import type { State } from '../../core/state/state.ts';
import { OrchdError } from '../../model/errors.ts';
import type { FailureRecord, KeptChange, KeptKind } from '../../model/records.ts';
import { isOpen } from '../../model/states.ts';
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

type KeptRecord = Omit<KeptChange, 'cause'>;

const LIVE = `SELECT ${JOB_ROW}, n, attempts FROM orchestrator_jobs WHERE is_terminal = 0`;
/** Over, while an attempt still holds a slot. */
const HELD = `SELECT ${JOB_ROW}, n, attempts FROM orchestrator_jobs
  WHERE is_terminal = 1 AND uid IN (SELECT uid FROM orchestrator_attempts WHERE is_open = 1)`;

interface LiveRow extends JobRow {
  readonly n: number;
  readonly attempts: number;
}

const ROW = 'SELECT epoch, last_seq, last_at, brain FROM orchestrator_epoch WHERE id = 1';

/** Raises the epoch without asking anybody: whoever led before can write nothing from here on. */
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

/** What the election has given us, unless another one has it by now. */
export async function takeUp(sql: Sql, epoch: number): Promise<EpochRow> {
  const row = only(await sql.query<EpochRow>(ROW));
  if (row.epoch !== epoch) throw new OrchdError('FENCED');
  return row;
}

function only(rows: readonly EpochRow[]): EpochRow {
  const [row] = rows;
  if (!row) throw new OrchdError('STORE_CORRUPT', 'the row of the epoch is missing');
  return row;
}

export async function recoverState(sql: Sql, row: EpochRow, state: State, now: number): Promise<void> {
  if (row.brain !== null) state.brain = upcast('brain', JSON.parse(row.brain) as never);
  const rows = await liveRows(sql);
  // Most jobs that wait were never tried: nothing needs to be asked of them.
  const tried = rows.filter(({ attempts }) => attempts > 0).map(({ uid }) => uid);
  const attempts = await attemptsOf(sql, tried);
  for (const jobRow of rows) {
    const { uid, ask, job, seq, attempts: all } = bundleOfRow(jobRow, attempts.get(jobRow.uid) ?? []);
    const entry = new JobEntry(uid, ask, job, seq);
    const open = all.at(-1);
    const records: WritableRecords = entry;
    records.open = open && isOpen(open.state) ? open : undefined;
    const past = all.filter((attempt) => attempt !== entry.open).slice(-PAST_ATTEMPTS);
    if (past.length > 0) records.past = past;
    state.restore(entry, now);
  }
  const failures = await sql.query<{ id: string; record: string }>(
    'SELECT id, record FROM orchestrator_failures ORDER BY seq',
  );
  for (const { id, record } of failures) {
    state.restoreFailure(id, upcast('failure', JSON.parse(record) as never) as FailureRecord);
  }
  const leases = await sql.query<{ token: string; record: string }>(
    'SELECT token, record FROM orchestrator_leases ORDER BY token',
  );
  for (const { token, record } of leases)
    state.leases.set(token, upcast('lease', JSON.parse(record) as never));
  const kept = await sql.query<{ kind: KeptKind; id: string; record: string }>(
    'SELECT kind, id, record FROM orchestrator_records ORDER BY kind, id',
  );
  for (const { kind, id, record } of kept) {
    state.keep({ kind, id, after: upcast(kind, JSON.parse(record) as never) } as KeptRecord);
  }
  state.seq = row.last_seq;
}

/** In the order of admission. Sorted here: the server would copy every row, bodies and all, into a table to sort. */
async function liveRows(sql: Sql): Promise<LiveRow[]> {
  const rows = await sql.query<LiveRow>(LIVE);
  for (const row of await sql.query<LiveRow>(HELD)) rows.push(row);
  return rows.sort((a, b) => a.n - b.n);
}
