/** What is still to be told of a text that was told piece by piece, perhaps not to its end. */

/** A text that is kept may be cut, with a note behind it: this many characters of it are compared. */
const COMPARED_CHARS = 200_000;

/** Returns the rest of `whole` after `told`; undefined if `told` is something else. White space at the ends does not count. */
export function restOf(whole: string, told: string): string | undefined {
  if (whole.startsWith(told)) return whole.slice(told.length);
  if (whole.trim() === told.trim()) return '';
  const isCut = whole.length > COMPARED_CHARS && told.startsWith(whole.slice(0, COMPARED_CHARS));
  return isCut ? '' : undefined;
}
