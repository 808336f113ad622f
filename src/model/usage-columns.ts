/** Usage as rows of a table: the columns of CSV, the same in an answer of the server and in what the command line writes. */
import type { LedgerLine, UsageGroup, UsageTotal } from './http/usage.ts';

type Cell = string | number | null | undefined;

const SUM_COLUMNS = [
  'attempts',
  'input',
  'cache_read',
  'cache_write',
  'output',
  'reasoning',
  'ms',
  'cost',
  'assumed',
  'overrun',
  'unpriced',
] as const satisfies readonly (keyof UsageTotal)[];

export const usageColumns = (by: readonly string[]): readonly string[] => [...by, ...SUM_COLUMNS];

/** The row of a group; that of the total, without a group, stands for all. */
export const usageCells = (
  by: readonly string[],
  sums: UsageTotal & Partial<Pick<UsageGroup, 'group'>>,
): Cell[] => [...by.map((key) => sums.group?.[key]), ...SUM_COLUMNS.map((name) => sums[name])];

/** Tags are one column, as JSON: every job may have others. */
export const LEDGER_COLUMNS = [
  'settled_at',
  'attempt',
  'job_id',
  'tenant',
  'principal',
  'token',
  'session_id',
  'type',
  'model',
  'seat',
  'route',
  'root_id',
  'outcome',
  'basis',
  'input',
  'cache_read',
  'cache_write',
  'output',
  'reasoning',
  'ms',
  'cost',
  'overrun',
  'tags',
] as const satisfies readonly (keyof LedgerLine)[];

export const ledgerCells = (line: LedgerLine): Cell[] =>
  LEDGER_COLUMNS.map((name) =>
    name === 'tags' ? line.tags && JSON.stringify(line.tags) : (line[name] as Cell),
  );
