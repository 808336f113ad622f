/** The jobs in memory in order of admission, for lists. */
import type { JobEntry } from './job-entry.ts';

export class AdmissionOrder {
  /** Sorted by `ask.n`. Jobs that have left memory stay until they are more than half of the list. */
  #entries: JobEntry[] = [];
  readonly #isHere: (entry: JobEntry) => boolean;

  constructor(isHere: (entry: JobEntry) => boolean) {
    this.#isHere = isHere;
  }

  add(entry: JobEntry, live: number): void {
    const last = this.#entries.at(-1);
    if (!last || last.ask.n < entry.ask.n) this.#entries.push(entry);
    else this.#entries.splice(this.#firstFrom(entry.ask.n), 0, entry);
    if (this.#entries.length > 64 && this.#entries.length > 2 * live) {
      this.#entries = this.#entries.filter(this.#isHere);
    }
  }

  *newestFirst(before = Number.POSITIVE_INFINITY): Generator<JobEntry> {
    const entries = this.#entries;
    for (let at = this.#firstFrom(before) - 1; at >= 0; at--) {
      const entry = entries[at] as JobEntry;
      if (this.#isHere(entry)) yield entry;
    }
  }

  *oldestFirst(after = -1): Generator<JobEntry> {
    const entries = this.#entries;
    for (let at = this.#firstFrom(after + 1); at < entries.length; at++) {
      const entry = entries[at] as JobEntry;
      if (this.#isHere(entry)) yield entry;
    }
  }

  /** The index of the first job that was admitted at sequence number `n` or later. */
  #firstFrom(n: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as JobEntry).ask.n < n) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
