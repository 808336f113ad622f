/** Text tables for a terminal. */
import type { Line, Summary } from './results.ts';

export function formatNumber(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return '-';
  if (size >= 1_000_000) return `${(value / 1_000_000).toFixed(2)}M`;
  if (size >= 10_000) return `${(value / 1000).toFixed(1)}k`;
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size >= 1 ? value.toFixed(2) : value.toFixed(3);
}

export function formatSummary({ median, low, high }: Summary): string {
  const middle = formatNumber(median);
  return low === high ? middle : `${middle} (${formatNumber(low)}-${formatNumber(high)})`;
}

/** Pads every column to its widest cell; the first column is left-aligned, the others right-aligned. */
export function table(rows: readonly (readonly string[])[]): string {
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, at) =>
    Math.max(...rows.map((row) => row[at]?.length ?? 0)),
  );
  const cell = (text: string, at: number): string =>
    at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0);
  return rows.map((row) => `  ${row.map(cell).join('  ')}`.trimEnd()).join('\n');
}

/** Lines share a table where the columns of one are a subset of the other's; otherwise they get separate tables. */
export function linesTable(lines: readonly Line[]): string {
  const groups: Line[][] = [];
  for (const line of lines) {
    const group = groups.find((others) =>
      others.every((other) => isPart(line, other) || isPart(other, line)),
    );
    if (group) group.push(line);
    else groups.push([line]);
  }
  return groups.map(groupTable).join('\n');
}

const isPart = (small: Line, large: Line): boolean =>
  [...small.values.keys()].every((key) => large.values.has(key));

function groupTable(lines: readonly Line[]): string {
  const keys = [...new Set(lines.flatMap(({ values }) => [...values.keys()]))];
  const cell = (value: Summary | string | undefined): string =>
    value === undefined ? '' : typeof value === 'string' ? value : formatSummary(value);
  const rows = lines.map((line) => [line.case, ...keys.map((key) => cell(line.values.get(key)))]);
  return table([['', ...keys], ...rows]);
}
