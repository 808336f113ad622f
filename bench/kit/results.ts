/** All rows of a run; the samples of one case are summarized in one line. */
import type { Row } from './bench.ts';
import { median } from './numbers.ts';

export interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export interface Line {
  readonly case: string;
  readonly values: ReadonlyMap<string, Summary | string>;
}

export class Results {
  readonly #rows = new Map<string, Row[]>();

  add(bench: string, rows: readonly Row[]): void {
    this.#rows.set(bench, [...(this.#rows.get(bench) ?? []), ...rows]);
  }

  /** The samples of one number, in the order of the rounds. */
  samples(name: string, key: string): number[] {
    const all = [...this.#rows.values()].flat().filter((row) => row.case === name);
    return all.map(({ values }) => values[key]).filter((value) => typeof value === 'number');
  }

  lines(bench: string): Line[] {
    const rows = this.#rows.get(bench) ?? [];
    const cases = [...new Set(rows.map((row) => row.case))];
    return cases.map((name) => ({
      case: name,
      values: summaries(rows.filter((row) => row.case === name)),
    }));
  }

  toJSON(): Record<string, readonly Row[]> {
    return Object.fromEntries(this.#rows);
  }
}

function summaries(rows: readonly Row[]): Map<string, Summary | string> {
  const keys = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const found = new Map<string, Summary | string>();
  for (const key of keys) {
    const all = rows.map(({ values }) => values[key]).filter((value) => value !== undefined);
    const numbers = all.filter((value) => typeof value === 'number');
    if (numbers.length > 0) found.set(key, summary(numbers));
    else if (all[0] !== undefined) found.set(key, String(all[0]));
  }
  return found;
}

export const summary = (samples: readonly number[]): Summary => ({
  median: median(samples) ?? Number.NaN,
  low: Math.min(...samples),
  high: Math.max(...samples),
});
