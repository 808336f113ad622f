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

/** The text of another blob. */
export interface BlobPart {
  readonly ref: BlobRef;
  /** The number of JSON values in the text, which commas separate. */
  readonly values: number;
  /** The number of blobs that are read for the text. */
  readonly links: number;
}

export interface Composition {
  readonly parts: readonly (string | BlobPart)[];
  /** The text after that of all parts. */
  readonly rest: string;
}

export const composedText = ({ parts, rest }: Composition): string =>
  `${MARK}${JSON.stringify(parts)}\n${rest}`;

/** `start`: the text of a blob, or at least its first bytes. */
export const isComposed = (start: string): boolean => start.startsWith(MARK);

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
export const refsIn = ({ parts }: Pick<Composition, 'parts'>): readonly BlobRef[] =>
  parts.flatMap((part) => (typeof part === 'string' ? [] : [part.ref]));

/** The text of JSON values as a part of a list, with commas between them. Throws INVALID_PARAMS for other values. */
export function valuesText(values: readonly unknown[]): string {
  try {
    return values.map((value) => JSON.stringify(value) ?? 'null').join(',');
  } catch {
    throw new OrchdError('INVALID_PARAMS', 'a list has a value that cannot be written as JSON');
  }
}
