/** A table with aligned columns, cut to the width of the terminal if there is one. */
import { oneLine } from './screen.ts';

export interface TableOptions {
  /** The maximum width of a line; without it nothing is cut. */
  readonly width?: number | undefined;
  /** Colours a cell after it was aligned. */
  readonly paint?: (column: number, row: number, cell: string) => string;
}

const GAP = 2;
const MIN_LAST_COLUMN = 10;

export function tableText(
  headings: readonly string[],
  texts: readonly (readonly string[])[],
  options: TableOptions = {},
): string {
  // Before anything is measured: making a text harmless can change its length.
  const rows = texts.map((cells) => cells.map(oneLine));
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const last = headings.length - 1;
  const before = widths.slice(0, last).reduce((sum, width) => sum + width + GAP, 0);
  // Only the last column, which explains, is cut; ids and states are never cut.
  const room = options.width === undefined ? undefined : Math.max(MIN_LAST_COLUMN, options.width - before);
  const line = (cells: readonly string[], row: number): string => {
    const shown = cells.map((cell, column) => {
      const text = column === last ? cut(cell, room) : cell.padEnd(widths[column] ?? 0);
      return row < 0 ? text : (options.paint?.(column, row, text) ?? text);
    });
    return shown.join(' '.repeat(GAP)).trimEnd();
  };
  return [line(headings, -1), ...rows.map(line)].join('\n');
}

const cut = (text: string, room: number | undefined): string =>
  room === undefined || text.length <= room ? text : `${text.slice(0, room - 1)}…`;
