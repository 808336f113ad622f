/** Cuts a text to a number of bytes in UTF-8, between two characters. */

/**
 * At most the first `maxBytes` of the text, in UTF-8. A note at the end says how much is missing; the note itself does not
 * count.
 */
export function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return text.toWellFormed();
  // Each character has at least one byte, so the bytes that are kept come from the first `maxBytes` characters.
  const head = Buffer.from(text.slice(0, maxBytes));
  const kept = head.subarray(0, characterStart(head, maxBytes));
  return `${kept.toString('utf8')}\n[cut: the first ${kept.length} of ${bytes} bytes are shown, ${bytes - kept.length} are missing]`;
}

/** The last place at or before `at` where a character begins, or the end of the bytes. */
export function characterStart(bytes: Uint8Array, at: number): number {
  if (at >= bytes.length) return bytes.length;
  let start = at;
  while (start > 0 && isContinuation(bytes[start] as number)) start--;
  return start;
}

/** True for a byte that is not the first one of its character in UTF-8. */
export const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80;
