/** The charges in the history file: their columns, and the queries over them. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  byGroup,
  type LedgerField,
  type LedgerKey,
  type LedgerPlace,
  type LedgerSum,
  type LedgerWindow,
  TAG_PREFIX,
} from '../../../core/ports/ledger.ts';
import type { Charge } from '../../../model/charge.ts';
import { sumOf, tooManyGroups } from '../../charges.ts';

/**
 * Its key is the order of settlement, so that a time is one range of it. An attempt is closed once: a charge that is
 * there already is the same one.
 */
export const CHARGES_SCHEMA = `
CREATE TABLE IF NOT EXISTS charges (
  at INTEGER NOT NULL,
  token TEXT NOT NULL,
  job TEXT NOT NULL,
  tenant TEXT NOT NULL,
  agent TEXT NOT NULL,
  submitted_by TEXT NOT NULL,
  session TEXT,
  tags TEXT,
  type TEXT NOT NULL,
  model TEXT,
  seat TEXT NOT NULL,
  route TEXT,
  root TEXT NOT NULL,
  ms INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  basis TEXT NOT NULL,
  cost INTEGER NOT NULL,
  overrun INTEGER NOT NULL,
  input INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  output INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  PRIMARY KEY (at, token)
) STRICT, WITHOUT ROWID;
`;

type Columns = readonly (string | number | null)[];
const COLUMN_COUNT = 23;
const INSERT = `INSERT OR IGNORE INTO charges VALUES (${Array(COLUMN_COUNT).fill('?').join(',')})`;

function columnsOf(charge: Charge): Columns {
  return [
    charge.at,
    charge.token,
    charge.job,
    charge.tenant,
    charge.agent,
    charge.submittedBy,
    charge.session ?? null,
    charge.tags === undefined ? null : JSON.stringify(charge.tags),
    charge.type,
    charge.model ?? null,
    charge.seat,
    charge.route ?? null,
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
}

/** A charge as one line of text, in the order of the columns. */
export const chargeRow = (charge: Charge): string => `${JSON.stringify(columnsOf(charge))}\n`;

/** Reads the text made by chargeRow(). */
export function readCharge(row: string): Charge {
  const [at, token, job, tenant, agent, submittedBy, session, tags, type, model, seat, route, ...rest] =
    JSON.parse(row);
  const [root, ms, outcome, basis, cost, overrun, input, cacheRead, cacheWrite, output, reasoning] = rest;
  return {
    ...{ input, cacheRead, cacheWrite, output, reasoning },
    ...{ token, job, tenant, agent, submittedBy },
    session: session ?? undefined,
    tags: tags === null ? undefined : JSON.parse(tags),
    type,
    model: model ?? undefined,
    seat,
    route: route ?? undefined,
    ...{ root, at, ms, outcome, cost, basis, overrun },
  };
}

const FIELD_COLUMNS: Readonly<Record<LedgerField, string>> = {
  tenant: 'tenant',
  principal: 'agent',
  token: 'submitted_by',
  model: 'model',
  seat: 'seat',
  route: 'route',
  session: 'session',
};

/** In the order of COUNTS. */
const SUMS = [
  'count(*)',
  'sum(input)',
  'sum(cache_read)',
  'sum(cache_write)',
  'sum(output)',
  'sum(reasoning)',
  'sum(ms)',
  'sum(cost)',
  "sum(iif(basis = 'assumed', cost, 0))",
  'sum(overrun)',
  "sum(basis = 'unpriced')",
];

export class ChargeRows {
  readonly #database: DatabaseSync;
  readonly #insert: StatementSync | undefined;

  constructor(database: DatabaseSync, mode: 'write' | 'read') {
    this.#database = database;
    this.#insert = mode === 'write' ? database.prepare(INSERT) : undefined;
  }

  /** Adds the charge of a text made by chargeRow(). */
  putRow(row: string): void {
    this.#insert?.run(...(JSON.parse(row) as Columns));
  }

  put(charge: Charge): void {
    this.#insert?.run(...columnsOf(charge));
  }

  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): LedgerSum[] {
    const paths: string[] = [];
    const keys = by.map((key) => {
      if (!key.startsWith(TAG_PREFIX)) return FIELD_COLUMNS[key as LedgerField];
      paths.push(`$.${JSON.stringify(key.slice(TAG_PREFIX.length))}`);
      return 'json_extract(tags, ?)';
    });
    const { where, values } = conditionsOf(window);
    // Sums as text: SQLite's integers may be larger than a number of JavaScript.
    const columns = [...keys, ...SUMS.map((sum) => `CAST(${sum} AS TEXT)`)].join(', ');
    const groups = keys.length === 0 ? 'HAVING count(*) > 0' : `GROUP BY ${keys.map((_, at) => at + 1)}`;
    const sql = `SELECT ${columns} FROM charges WHERE ${where} ${groups} LIMIT ?`;
    const statement = this.#database.prepare(sql);
    statement.setReturnArrays(true);
    const rows = statement.all(...paths, ...values, limit + 1) as unknown as (string | null)[][];
    if (rows.length > limit) throw tooManyGroups();
    return rows.map((row) => sumOf(row.slice(0, by.length), row.slice(by.length))).sort(byGroup);
  }

  /** Rows as chargeRow() makes them, in the order of settlement. */
  page(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): string[] {
    // With the instant of `after` as the start, SQLite reads the range of the primary key that is left.
    const rest = after ? { ...window, from: Math.max(window.from, after.at) } : window;
    const { where, values } = conditionsOf(rest);
    const behind = after ? ' AND (at > ? OR token > ?)' : '';
    const place = after ? [after.at, after.token] : [];
    const sql = `SELECT * FROM charges WHERE ${where}${behind} ORDER BY at, token LIMIT ?`;
    const statement = this.#database.prepare(sql);
    statement.setReturnArrays(true);
    const rows = statement.all(...values, ...place, limit) as unknown as Columns[];
    return rows.map((row) => JSON.stringify(row));
  }

  drop(settledBefore: number, limit: number): number {
    const sql = `DELETE FROM charges WHERE (at, token) IN
      (SELECT at, token FROM charges WHERE at < ? ORDER BY at, token LIMIT ?)`;
    return Number(this.#database.prepare(sql).run(settledBefore, limit).changes);
  }
}

function conditionsOf({ from, to, tenant }: LedgerWindow): { where: string; values: (string | number)[] } {
  if (tenant === undefined) return { where: 'at >= ? AND at < ?', values: [from, to] };
  return { where: 'at >= ? AND at < ? AND tenant = ?', values: [from, to, tenant] };
}
