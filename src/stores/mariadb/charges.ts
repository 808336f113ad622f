/** The table of charges: written in the transaction of the change that closes an attempt, and kept when its job is purged. */
import {
  byGroup,
  type LedgerField,
  type LedgerKey,
  type LedgerPlace,
  type LedgerReads,
  type LedgerSum,
  type LedgerWindow,
  TAG_PREFIX,
} from '../../core/ports/ledger.ts';
import { type Charge, chargesOf } from '../../model/charge.ts';
import { OrchdError } from '../../model/errors.ts';
import { sumOf, tooManyGroups } from '../charges.ts';
import { bundles, HOLD_FENCE, JOB_ROW } from './history.ts';
import { cut, type JobRow } from './rows.ts';
import { CHARS } from './schema.ts';
import type { SharedConnection } from './shared-connection.ts';
import { type Sql, transaction, type Value } from './sql.ts';

const COLUMNS = [
  'at_ms',
  'token',
  'job_id',
  'tenant',
  'principal',
  'submitted_by',
  'session_id',
  'tags',
  'type',
  'model',
  'seat',
  'route',
  'root',
  'ms',
  'outcome',
  'basis',
  'cost',
  'overrun',
  'input',
  'cache_read',
  'cache_write',
  'output',
  'reasoning',
] as const;
type ChargeRow = Readonly<Record<(typeof COLUMNS)[number], never>>;

/** An attempt is closed once: a charge that is there already is the same one. */
export const PUT_CHARGE = `INSERT INTO orchestrator_charges (${COLUMNS.join(', ')})
  VALUES (${COLUMNS.map(() => '?').join(', ')}) ON DUPLICATE KEY UPDATE token = token`;

/** A name that is longer than its column is cut: the record of the job has the whole, and a commit must not fail. */
const named = (text: string | undefined): string | null => (text === undefined ? null : cut(text));

export const chargeValues = (charge: Charge): Value[] => [
  charge.at,
  charge.token,
  charge.job,
  charge.tenant,
  cut(charge.agent),
  cut(charge.submittedBy),
  named(charge.session),
  charge.tags === undefined ? null : JSON.stringify(charge.tags),
  charge.type,
  charge.model === undefined ? null : cut(charge.model, CHARS.model),
  cut(charge.seat),
  named(charge.route),
  charge.root,
  charge.ms,
  charge.outcome,
  charge.basis,
  charge.cost,
  charge.overrun,
  charge.input,
  charge.cacheRead,
  charge.cacheWrite,
  charge.output,
  charge.reasoning,
];

const chargeOfRow = (row: ChargeRow): Charge => ({
  input: row.input,
  cacheRead: row.cache_read,
  cacheWrite: row.cache_write,
  output: row.output,
  reasoning: row.reasoning,
  token: row.token,
  job: row.job_id,
  tenant: row.tenant,
  agent: row.principal,
  submittedBy: row.submitted_by,
  session: row.session_id ?? undefined,
  tags: row.tags === null ? undefined : JSON.parse(row.tags),
  type: row.type,
  model: row.model ?? undefined,
  seat: row.seat,
  route: row.route ?? undefined,
  root: row.root,
  at: row.at_ms,
  ms: row.ms,
  outcome: row.outcome,
  cost: row.cost,
  basis: row.basis,
  overrun: row.overrun,
});

const FIELD_COLUMNS: Readonly<Record<LedgerField, string>> = {
  tenant: 'tenant',
  principal: 'principal',
  token: 'submitted_by',
  model: 'model',
  seat: 'seat',
  route: 'route',
  session: 'session_id',
};

/** In the order of COUNTS. */
const SUMS = [
  'COUNT(*)',
  'SUM(input)',
  'SUM(cache_read)',
  'SUM(cache_write)',
  'SUM(output)',
  'SUM(reasoning)',
  'SUM(ms)',
  'SUM(cost)',
  "SUM(IF(basis = 'assumed', cost, 0))",
  'SUM(overrun)',
  "SUM(basis = 'unpriced')",
];

export class TableLedger implements LedgerReads {
  readonly #connection: SharedConnection;

  constructor(connection: SharedConnection) {
    this.#connection = connection;
  }

  async sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): Promise<LedgerSum[]> {
    const paths: string[] = [];
    const keys = by.map((key) => {
      if (!key.startsWith(TAG_PREFIX)) return FIELD_COLUMNS[key as LedgerField];
      paths.push(`$.${JSON.stringify(key.slice(TAG_PREFIX.length))}`);
      return 'JSON_VALUE(tags, ?) COLLATE utf8mb4_nopad_bin';
    });
    const { where, values } = conditionsOf(window);
    const columns = [...keys, ...SUMS].map((column, at) => `${column} AS c${at}`).join(', ');
    const groups =
      keys.length === 0 ? 'HAVING COUNT(*) > 0' : `GROUP BY ${keys.map((_, at) => `c${at}`).join(', ')}`;
    const select = `SELECT ${columns} FROM orchestrator_charges WHERE ${where} ${groups} LIMIT ?`;
    const rows = await this.#connection.read((sql) =>
      sql.query<Record<string, never>>(select, [...paths, ...values, limit + 1]),
    );
    if (rows.length > limit) throw tooManyGroups();
    return rows
      .map(Object.values<string | null>)
      .map((row) => sumOf(row.slice(0, by.length), row.slice(by.length)))
      .sort(byGroup);
  }

  page(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Promise<Charge[]> {
    return this.#connection.read((sql) => chargePage(sql, window, after, limit));
  }
}

export async function chargePage(
  sql: Sql,
  window: LedgerWindow,
  after: LedgerPlace | undefined,
  limit: number,
): Promise<Charge[]> {
  // With the instant of `after` as the start, the server reads the range of the primary key that is left.
  const { where, values } = conditionsOf(
    after ? { ...window, from: Math.max(window.from, after.at) } : window,
  );
  const behind = after ? ' AND (at_ms > ? OR token > ?)' : '';
  const place = after ? [after.at, after.token] : [];
  const select = `SELECT ${COLUMNS.join(', ')} FROM orchestrator_charges
    WHERE ${where}${behind} ORDER BY at_ms, token LIMIT ?`;
  return (await sql.query<ChargeRow>(select, [...values, ...place, limit])).map(chargeOfRow);
}

function conditionsOf({ from, to, tenant }: LedgerWindow): { where: string; values: Value[] } {
  if (tenant === undefined) return { where: 'at_ms >= ? AND at_ms < ?', values: [from, to] };
  return { where: 'at_ms >= ? AND at_ms < ? AND tenant = ?', values: [from, to, tenant] };
}

export async function dropCharges(
  sql: Sql,
  epoch: number,
  settledBefore: number,
  limit: number,
): Promise<number> {
  return transaction(sql, async () => {
    const fence = await sql.run(HOLD_FENCE, [epoch]);
    if (fence.rows !== 1) throw new OrchdError('FENCED');
    const drop = 'DELETE FROM orchestrator_charges WHERE at_ms < ? ORDER BY at_ms, token LIMIT ?';
    return (await sql.run(drop, [settledBefore, limit])).rows;
  });
}

const JOBS_PER_FILL = 200;
const CHARGED_JOBS = `SELECT DISTINCT uid FROM orchestrator_attempts
  WHERE uid > ? AND is_open = 0 AND (record LIKE '%"usage":%' OR record LIKE '%"bill":%') ORDER BY uid LIMIT ?`;

/** Makes the charges of the attempts that an earlier version has closed. */
export async function fillCharges(sql: Sql): Promise<void> {
  for (let last: string | undefined = ''; last !== undefined; ) {
    const charged: { uid: string }[] = await sql.query(CHARGED_JOBS, [last, JOBS_PER_FILL]);
    last = charged.at(-1)?.uid;
    if (last === undefined) return;
    const marks = charged.map(() => '?').join(',');
    const select = `SELECT ${JOB_ROW} FROM orchestrator_jobs WHERE uid IN (${marks})`;
    const rows = await sql.query<JobRow>(
      select,
      charged.map(({ uid }) => uid),
    );
    const charges = (await bundles(sql, rows)).flatMap(({ uid, ask, attempts }) => [
      ...chargesOf(uid, ask, attempts),
    ]);
    await sql.batch(PUT_CHARGE, charges.map(chargeValues));
  }
}
