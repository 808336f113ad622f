/** Reads a body line by line, as its bytes arrive. Runs in browsers too. */

/**
 * Yields the lines of a body that end with a line feed, those of a piece together. What follows the last line feed is dropped: it is a part of a line
 * whose rest was lost. Fails if the body breaks off.
 */
export async function* textLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder();
  /** The beginning of a line that has not ended, in pieces: a line may have many megabytes. */
  let begun: string[] = [];
  for await (const piece of body) {
    const texts = decoder.decode(piece, { stream: true }).split('\n');
    const rest = texts.pop() as string;
    if (texts.length > 0) {
      texts[0] = [...begun, texts[0]].join('');
      begun = [];
      yield texts;
    }
    if (rest !== '') begun.push(rest);
  }
}
