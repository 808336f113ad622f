/** Tells text from other content, by its type and by its bytes. */
import { characterStart } from '../../kit/cut-text.ts';

const TEXT_TYPE =
  /^(text\/[\w.+-]+|application\/(json|xml|javascript|yaml|x-yaml|x-ndjson|[\w.-]+\+(json|xml|yaml)))$/;

/** True for the Content-Type of a text in UTF-8; ASCII is a part of it. */
export function isTextType(contentType: string | undefined): boolean {
  const [type = '', ...parameters] = (contentType ?? '').toLowerCase().split(';');
  const charset = parameters.map((each) => each.trim()).find((each) => each.startsWith('charset='));
  return (
    TEXT_TYPE.test(type.trim()) && (charset === undefined || /^charset="?(utf-?8|us-ascii)"?$/.test(charset))
  );
}

/**
 * The bytes as text; undefined if they are binary: no valid UTF-8, or with a zero byte. If `isCut`, the last character may
 * be incomplete, and is left out.
 */
export function decodedText(bytes: Uint8Array, isCut = false): string | undefined {
  const whole = isCut ? bytes.subarray(0, wholeLength(bytes)) : bytes;
  if (whole.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(whole);
  } catch {
    return undefined;
  }
}

/** The number of bytes up to the end of the last whole character. */
export function wholeLength(bytes: Uint8Array): number {
  if (bytes.length === 0) return 0;
  const start = characterStart(bytes, bytes.length - 1);
  return start + lengthOf(bytes[start] as number) > bytes.length ? start : bytes.length;
}

/** The number of bytes of a character, by its first one. */
function lengthOf(first: number): number {
  if (first < 0xc0) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}
