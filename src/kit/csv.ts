/** CSV (RFC 4180), safe to open in a spreadsheet. */

export type CsvCell = string | number | undefined | null;

/** A text that a spreadsheet would run as a formula. A number with a sign is none. */
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/** A text that begins like a formula gets an apostrophe before it, which spreadsheets take as the mark of a text. */
export function csvCell(value: CsvCell): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csvLine = (cells: readonly CsvCell[]): string => `${cells.map(csvCell).join(',')}\r\n`;
