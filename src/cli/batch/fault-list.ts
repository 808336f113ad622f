/** What is wrong with lines of a file: the first of them are kept, all are counted. */
import { counted } from '../text/meter.ts';
import type { NumberedFault } from './line-names.ts';

const MAX_SHOWN = 20;

export class FaultList {
  #first: NumberedFault[] = [];
  #count = 0;
  /** The text that all faults have, while they have the same. */
  #common: string | undefined;

  get count(): number {
    return this.#count;
  }

  /** Faults may come in any order: those of the first lines are kept. */
  add(fault: NumberedFault): void {
    if (this.#count++ === 0) this.#common = fault.text;
    else if (this.#common !== fault.text) this.#common = undefined;
    this.#first.push(fault);
    if (this.#first.length > 2 * MAX_SHOWN) this.#sort();
  }

  /**
   * `jobs.jsonl:4711: …`, one a line, then how many more there are. If all lines of the file, `total`, have the same
   * fault, it is said once.
   */
  lines(label: string, total: number): string[] {
    if (this.#common !== undefined && this.#count > 1 && this.#count === total)
      return [`${label}: all ${counted(total, 'line')}: ${this.#common}`];
    this.#sort();
    const shown = this.#first.map(({ line, text }) => `${label}:${line}: ${text}`);
    const more = this.#count - shown.length;
    return more === 0 ? shown : [...shown, `and ${more.toLocaleString('en')} more`];
  }

  #sort(): void {
    this.#first = this.#first.sort((a, b) => a.line - b.line).slice(0, MAX_SHOWN);
  }
}
