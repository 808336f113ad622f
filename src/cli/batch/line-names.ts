/**
 * The names of lines, and what `after` refers to by them. A line can wait only for lines before it, so that no cycle is
 * possible. Memory grows with the names and with the entries of `after`, not with the lines.
 */
import { type CheckedLine, isPossibleJobId, LineFault } from './line-check.ts';

export interface NumberedFault {
  readonly line: number;
  readonly text: string;
}

export class LineNames {
  readonly #lines = new Map<string, number>();
  /** Entries of `after` that were no name of an earlier line, with the first line that has them. */
  readonly #open = new Map<string, number>();
  /** Entries that are neither a name nor a job, with what is wrong with them. */
  readonly #unknown = new Map<string, string>();
  /** Lines with a name that are left out. */
  readonly #skipped = new Set<number>();

  /** A line of the first reading. */
  add({ number, name, after }: CheckedLine): void {
    if (name !== undefined) {
      const first = this.#lines.get(name);
      if (first !== undefined) throw duplicate(name, first);
      this.#lines.set(name, number);
    }
    for (const entry of after) {
      if (entry === name) throw ownName(entry);
      if (!this.#lines.has(entry) && !this.#open.has(entry)) this.#open.set(entry, number);
    }
  }

  /** After the first reading: the references that cannot be right. */
  faults(): NumberedFault[] {
    const faults: NumberedFault[] = [];
    for (const [entry, line] of this.#open) {
      const at = this.#lines.get(entry);
      if (at !== undefined) faults.push({ line, text: furtherDown(entry, at).message });
      else if (!isPossibleJobId(entry)) faults.push({ line, text: this.reject(entry) });
    }
    return faults;
  }

  /** After the first reading: entries that must be ids of jobs, with the first line that has them. */
  get foreignIds(): readonly (readonly [id: string, line: number])[] {
    return [...this.#open].filter(([entry]) => !this.#lines.has(entry) && isPossibleJobId(entry));
  }

  /** There is no job with this id: returns what is wrong with the lines that have it. */
  reject(entry: string, isBatch = false): string {
    const text = isBatch
      ? `"${entry}" is a batch; "after" takes names of lines and job ids`
      : `"${entry}" in "after" is neither the name of a line nor the id of a job`;
    this.#unknown.set(entry, text);
    return text;
  }

  /** Of the second reading: the line is left out, so lines that wait for it are, too. */
  skip(number: number): void {
    this.#skipped.add(number);
  }

  /** The job ids that a line of the second reading waits for. */
  idsOf({ number, name, after }: CheckedLine, idOf: (line: number) => string): readonly string[] {
    const first = name === undefined ? number : this.#lines.get(name);
    if (first !== number) throw duplicate(name as string, first as number);
    return after.map((entry) => {
      const at = this.#lines.get(entry);
      if (at === number) throw ownName(entry);
      if (at !== undefined && at > number) throw furtherDown(entry, at);
      if (at !== undefined && this.#skipped.has(at))
        throw new LineFault(`line ${at}, for which it waits ("${entry}"), is left out`);
      const fault = this.#unknown.get(entry);
      if (fault !== undefined) throw new LineFault(fault);
      return at === undefined ? entry : idOf(at);
    });
  }
}

const duplicate = (name: string, line: number): LineFault =>
  new LineFault(`the name "${name}" is that of line ${line}`);

const ownName = (entry: string): LineFault =>
  new LineFault(`"after" has the name of its own line, "${entry}"`);

const furtherDown = (entry: string, line: number): LineFault =>
  new LineFault(
    `"${entry}" in "after" is line ${line}, further down: a line can wait only for lines before it`,
  );
