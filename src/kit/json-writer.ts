/** Writes JSON in slices, for values that would block the event loop for too long in JSON.stringify. */
import { type Sliced, SliceMeter } from './slices.ts';

/** Work done in one slice: values that were written, and characters at CHARS_PER_UNIT. */
const UNITS_PER_SLICE = 4000;
const CHARS_PER_UNIT = 64;
/** A longer string is written in pieces of this length. */
const PIECE_CHARS = 2 ** 16;

const MAX_ROW = 4096;
const NUMBERS_PER_UNIT = 8;

/** Pieces of text that are joined before they are passed on: a string made of a million others is slow to read. */
const PIECES_PER_PART = 2048;

export interface WriteOptions {
  /** Receives the text part by part; no part ends within a surrogate pair. */
  readonly write: (part: string) => void;
  /** Writes the keys of each object in the order of their UTF-16 code units. */
  readonly sorted?: boolean;
  /** Counts the work of several values, which share slices. */
  readonly meter?: SliceMeter;
}

/** An array or object of which some items or fields are still to be written. */
interface Unwritten {
  readonly value: unknown[] | Readonly<Record<string, unknown>>;
  /** The keys to write; undefined for an array. */
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  next: number;
}

export const newMeter = (): SliceMeter => new SliceMeter(UNITS_PER_SLICE);

/** The same text as JSON.stringify for a value that JSON.parse could have returned. */
export function* textInSlices(value: unknown, meter = newMeter()): Sliced<string> {
  const parts: string[] = [];
  yield* writeInSlices(value, { write: (part) => parts.push(part), meter });
  return parts.join('');
}

/** Writes a value that JSON.parse could have returned. */
export function* writeInSlices(value: unknown, options: WriteOptions): Sliced<void> {
  const { sorted = false, meter = newMeter() } = options;
  let pieces: string[] = [];
  const write = (piece: string): void => {
    if (pieces.push(piece) < PIECES_PER_PART) return;
    options.write(pieces.join(''));
    pieces = [];
  };
  yield* writeValue(value, write, sorted, meter);
  options.write(pieces.join(''));
}

function* writeValue(
  value: unknown,
  write: (piece: string) => void,
  sorted: boolean,
  meter: SliceMeter,
): Sliced<void> {
  const open: Unwritten[] = [];
  if (isScalar(value)) yield* writeScalar(value, write, meter);
  else begin(value, open, write, sorted);
  for (let parent = open.at(-1); parent; parent = open.at(-1)) {
    if (parent.next === parent.length) {
      write(parent.keys ? '}' : ']');
      open.pop();
      continue;
    }
    const at = parent.next++;
    const key = parent.keys?.[at];
    const comma = at === 0 ? '' : ',';
    write(key === undefined ? comma : `${comma}${JSON.stringify(key)}:`);
    const child = (parent.value as Record<string | number, unknown>)[key ?? at];
    if (meter.spend(1 + Math.ceil((key?.length ?? 0) / CHARS_PER_UNIT))) yield;
    if (isScalar(child)) yield* writeScalar(child, write, meter);
    else if (!isRow(child)) begin(child, open, write, sorted);
    else {
      write(JSON.stringify(child));
      if (meter.spend(Math.ceil(child.length / NUMBERS_PER_UNIT))) yield;
    }
  }
}

type Scalar = string | number | boolean | null;

const isScalar = (value: unknown): value is Scalar => value === null || typeof value !== 'object';

/** A short array of numbers, such as an embedding: JSON.stringify writes it ten times as fast. */
const isRow = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.length <= MAX_ROW && value.every((each) => typeof each === 'number');

function begin(value: unknown, open: Unwritten[], write: (piece: string) => void, sorted: boolean): void {
  if (Array.isArray(value)) {
    write('[');
    open.push({ value, keys: undefined, length: value.length, next: 0 });
    return;
  }
  write('{');
  const fields = value as Readonly<Record<string, unknown>>;
  const keys = Object.keys(fields);
  if (sorted) keys.sort();
  open.push({ value: fields, keys, length: keys.length, next: 0 });
}

function* writeScalar(value: Scalar, write: (piece: string) => void, meter: SliceMeter): Sliced<void> {
  if (typeof value !== 'string' || value.length <= PIECE_CHARS) {
    write(JSON.stringify(value));
    if (typeof value === 'string' && meter.spend(Math.ceil(value.length / CHARS_PER_UNIT))) yield;
    return;
  }
  write('"');
  for (let start = 0; start < value.length; ) {
    const end = pieceEnd(value, start);
    write(JSON.stringify(value.slice(start, end)).slice(1, -1));
    start = end;
    if (meter.spend(PIECE_CHARS / CHARS_PER_UNIT)) yield;
  }
  write('"');
}

/**
 * The end of a piece of a long text. It is not between the halves of a surrogate pair: each half would be written as an
 * escape, or encoded as another character.
 */
export function pieceEnd(text: string, start: number, chars = PIECE_CHARS): number {
  const end = Math.min(start + chars, text.length);
  const last = text.charCodeAt(end - 1);
  return end < text.length && last >= 0xd800 && last <= 0xdbff ? end + 1 : end;
}
