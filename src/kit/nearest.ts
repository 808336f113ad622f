/** Finds the known word that a misspelt one was most likely meant to be. */

export function nearest(word: string, known: readonly string[]): string | undefined {
  // At most a third of the letters may differ: a suggestion further away would be a guess.
  let limit = Math.max(1, Math.floor(word.length / 3));
  let found: string | undefined;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) > limit) continue;
    const distance = editDistance(word, candidate);
    if (distance > limit || (found !== undefined && distance === limit)) continue;
    limit = distance;
    found = candidate;
  }
  // Otherwise a common beginning: `warning` suggests `warn`, `batch_max` suggests `batch_max_wait`.
  return found ?? known.find((candidate) => beginsAlike(word, candidate));
}

/** `; did you mean "word"?` for the end of a message; empty where no known word is near. */
export function didYouMean(word: string, known: readonly string[]): string {
  const meant = nearest(word, known);
  return meant === undefined ? '' : `; did you mean "${meant}"?`;
}

const beginsAlike = (a: string, b: string): boolean =>
  Math.min(a.length, b.length) > 2 && (a.startsWith(b) || b.startsWith(a));

/** Insertions, deletions and replacements of a letter, and exchanges of two neighbours, between two words. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isExchanged = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const exchanged = isExchanged ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min(replaced, exchanged, row[j]! + 1, next[j - 1]! + 1));
    }
    before = row;
    row = next;
  }
  return row[b.length]!;
}
