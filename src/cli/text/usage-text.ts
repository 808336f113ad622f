/** What was spent, as a table with bars for people. */
import type { UsageReport, UsageTotal } from '../../model/http/usage.ts';
import type { Terminal } from '../command.ts';
import { bar, counted } from './meter.ts';
import { moneyText } from './money.ts';
import { tableText } from './table.ts';

const NO_VALUE = '-';
/** The table shows so many groups; CSV and JSON have all of them. */
const MAX_ROWS = 100;

export function usageTable(report: UsageReport, terminal: Terminal): string {
  const { by, total, currency } = report;
  // With a day in it, the table is a course in time; else the largest groups come first.
  const shareOf = sharesOf(total);
  const groups = by.includes('day')
    ? report.groups
    : report.groups.toSorted((a, b) => shareOf(b) - shareOf(a));
  const most = Math.max(0, ...groups.map(shareOf));
  const shown = groups.slice(0, MAX_ROWS);
  const rows = shown.map((sums) => [
    ...by.map((key) => sums.group[key] ?? NO_VALUE),
    ...countCells(sums),
    moneyText(sums.cost, currency),
    most === 0 ? '' : bar(shareOf(sums) / most),
  ]);
  const last = [...by.map((_, at) => (at === 0 ? 'total' : '')), ...countCells(total)];
  const all = [...rows, [...last, moneyText(total.cost, currency), '']];
  const headings = [...by.map((key) => key.toUpperCase()), 'ATTEMPTS', 'IN', 'CACHED', 'OUT', 'COST', ''];
  const width = terminal.isPerson ? terminal.columns || undefined : undefined;
  const notes = [...notesOf(total, currency)];
  if (groups.length > shown.length)
    notes.push(`${counted(groups.length - shown.length, 'group')} more: --csv and --json list all.`);
  return [headOf(report), tableText(headings, all, { width }), ...notes].join('\n');
}

/** What the bars show: costs or, where nothing had a price, tokens. */
function sharesOf(total: UsageTotal): (sums: UsageTotal) => number {
  if (total.cost > 0) return ({ cost }) => cost;
  return ({ input, cache_read, cache_write, output, reasoning }) =>
    input + cache_read + cache_write + output + reasoning;
}

const countCells = ({ attempts, input, cache_read, cache_write, output, reasoning }: UsageTotal): string[] =>
  [attempts, input + cache_write, cache_read, output + reasoning].map(String);

const headOf = ({ from, to, time_zone }: UsageReport): string =>
  `Settled from ${instantText(from, time_zone)} to ${instantText(to, time_zone)} (${time_zone})`;

const instantText = (at: number, timeZone: string): string =>
  Temporal.Instant.fromEpochMilliseconds(at)
    .toZonedDateTimeISO(timeZone)
    .toPlainDateTime()
    .toString({ smallestUnit: 'minute' })
    .replace('T', ' ');

function* notesOf({ assumed, overrun, unpriced }: UsageTotal, currency: string): Generator<string> {
  if (assumed > 0)
    yield `${moneyText(assumed, currency)} of it nobody has told: it counts as it was reserved.`;
  if (overrun > 0) yield `${moneyText(overrun, currency)} of it is more than the bound that was reserved.`;
  if (unpriced > 0) yield `${counted(unpriced, 'attempt')} had no price.`;
}
