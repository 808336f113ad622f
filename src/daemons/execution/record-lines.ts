/**
 * The lines of a RecordLog: `<CRC-32> <number> <durable> <JSON>`. The numbers count the records of the file from 1;
 * `durable` is the number of the last record that was on stable storage when the line was written. A flush starts on a
 * sector of its own (docs/decisions/0006), and what lies between is zeros.
 *
 * A power cut may lose any part of the last flush, which nobody was told of. So a record is missing without harm, unless a
 * later line says that it was durable.
 */
import { crc32 } from 'node:zlib';

const SECTOR_BYTES = 512;
const NEWLINE = 0x0a;
const CRC_CHARS = 8;

export const sectorAfter = (position: number): number => Math.ceil(position / SECTOR_BYTES) * SECTOR_BYTES;

export function lineOf(number: number, durable: number, record: object): string {
  const text = `${number} ${durable} ${JSON.stringify(record)}`;
  return `${crc32(text).toString(16).padStart(CRC_CHARS, '0')} ${text}\n`;
}

export interface LinesRead {
  /** The records up to the first that is missing or damaged. */
  readonly records: readonly unknown[];
  /** Whether a record is missing that was durable. */
  readonly isDamaged: boolean;
}

export function readLines(bytes: Buffer): LinesRead {
  const records: unknown[] = [];
  let isDamaged = false;
  for (const line of linesIn(bytes)) {
    const read = readLine(line);
    if (!read) continue;
    if (read.number === records.length + 1) records.push(read.record);
    else if (read.durable > records.length) isDamaged = true;
  }
  // A file is given its name when its first record is durable.
  return { records, isDamaged: isDamaged || records.length === 0 };
}

function* linesIn(bytes: Buffer): Generator<Buffer> {
  for (let from = 0; from < bytes.length; ) {
    while (bytes[from] === 0) from++;
    const end = bytes.indexOf(NEWLINE, from);
    if (end < 0) return;
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}

const FIELDS = /^(\d{1,15}) (\d{1,15}) /;

function readLine(
  line: Buffer,
): { readonly number: number; readonly durable: number; readonly record: unknown } | undefined {
  const text = line.subarray(CRC_CHARS + 1);
  const crc = line.subarray(0, CRC_CHARS + 1).toString('latin1');
  if (!/^[0-9a-f]{8} $/.test(crc) || Number.parseInt(crc, 16) !== crc32(text)) return undefined;
  const [fields, number, durable] = FIELDS.exec(text.subarray(0, 40).toString('latin1')) ?? [];
  if (fields === undefined) return undefined;
  try {
    const record: unknown = JSON.parse(text.subarray(fields.length).toString());
    return { number: Number(number), durable: Number(durable), record };
  } catch {
    return undefined;
  }
}
