/**
 * Composed bodies (docs/decisions/0036). The text of such a body is made of texts of its own and of the texts of other blobs, so that what many
 * bodies have in common, such as the messages of a conversation, is stored once.
 *
 * A composed blob begins with MARK, which no JSON text does, then has its parts as one line of JSON, then the rest of its
 * text as it is. The line holds no text of a user: it can be read without the key of a session.
 */
import type { BlobRef } from './body.ts';
import { OrchdError } from './errors.ts';

const MARK = 'composed:1:';
/** The mark of a blob that has a SlicePart, which versions that know MARK alone cannot read. */
const MARK_SLICE = 'composed:2:';

/** The text of another blob. */
export interface BlobPart {
  readonly ref: BlobRef;
  /** The number of JSON values in the text, which commas separate. */
  readonly values: number;
  /** The number of blobs that are read for the text. */
  readonly links: number;
}

/**
 * Some characters of the text of another blob: a message says what a tool returned, and the result of the tool is stored
 * already. A string is the text instead of its blob.
 */
export interface SlicePart {
  readonly slice: BlobRef | string;
  readonly from: number;
  readonly to: number;
}

export type Part = string | BlobPart | SlicePart;

export interface Composition {
  readonly parts: readonly Part[];
  /** The text after that of all parts. */
  readonly rest: string;
}

export const isSlice = (part: Part): part is SlicePart => typeof part === 'object' && 'slice' in part;

export function composedText({ parts, rest }: Composition): string {
  const mark = parts.some(isSlice) ? MARK_SLICE : MARK;
  return `${mark}${JSON.stringify(parts)}\n${rest}`;
}

/** `start`: the text of a blob, or at least its first bytes. */
export const isComposed = (start: string): boolean => start.startsWith(MARK) || start.startsWith(MARK_SLICE);

/** The composition that the text of a blob describes; undefined for the text of a plain one. */
export function compositionIn(text: string): Composition | undefined {
  if (!isComposed(text)) return undefined;
  const end = text.indexOf('\n');
  return {
    parts: JSON.parse(text.slice(MARK.length, end)) as Composition['parts'],
    rest: text.slice(end + 1),
  };
}

/** The blobs that a composition names. */
export const refsIn = ({ parts }: Pick<Composition, 'parts'>): readonly BlobRef[] => parts.flatMap(refOf);

function refOf(part: Part): readonly BlobRef[] {
  if (typeof part === 'string') return [];
  if (!isSlice(part)) return [part.ref];
  return typeof part.slice === 'string' ? [] : [part.slice];
}

/** A blob and its text. */
export interface KnownText {
  readonly ref: BlobRef;
  readonly text: string;
}

/** Shorter strings are written again: a part takes about a hundred characters. */
const MIN_SLICE_CHARS = 1024;
const STRINGS = /"(?:[^"\\]|\\.)*"/gs;

/** The longest string of a JSON text, without its quotes. */
function longestString(text: string): { readonly from: number; readonly to: number } {
  let longest = { from: 0, to: 0 };
  for (const { 0: quoted, index } of text.matchAll(STRINGS))
    if (quoted.length - 2 > longest.to - longest.from)
      longest = { from: index + 1, to: index + quoted.length - 1 };
  return longest;
}

/** A JSON text with the longest strings of these blobs as parts, where it contains them in this order. */
export function withKnown(text: string, known: readonly KnownText[]): Composition {
  const parts: Part[] = [];
  let rest = text;
  for (const { ref, text: said } of known) {
    const { from, to } = longestString(said);
    const at = to - from < MIN_SLICE_CHARS ? -1 : rest.indexOf(said.slice(from, to));
    if (at < 0) continue;
    parts.push(rest.slice(0, at), { slice: ref, from, to });
    rest = rest.slice(at + to - from);
  }
  return { parts, rest };
}

/** The text of JSON values as a part of a list, with commas between them. Throws INVALID_PARAMS for other values. */
export function valuesText(values: readonly unknown[]): string {
  try {
    const texts: string[] = [];
    // Also the holes of a list, which `map` would pass over: a text with two commas in a row is no JSON.
    for (const value of values) texts.push(JSON.stringify(value) ?? 'null');
    return texts.join(',');
  } catch {
    throw new OrchdError('INVALID_PARAMS', 'a list has a value that cannot be written as JSON');
  }
}
