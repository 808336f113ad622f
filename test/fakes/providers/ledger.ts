/** The bills of a fake provider: one line for every generation that it has accepted, on disk before it answers. */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { BilledTokens } from './script.ts';

export interface Bill {
  /** The tag that the call came with; null where it came without one. */
  readonly tag: string | null;
  /** The provider's id of the call. */
  readonly id: string;
  readonly path: string;
  /** The last text of the request, by which a call without a tag can be told from others. */
  readonly prompt: string;
  readonly tokens: BilledTokens;
}

/** What a provider takes for a million tokens of each kind, in whole micro-units. */
export type Tariff = Readonly<Record<keyof BilledTokens, number>>;

/** What a provider charges for a call, rounded up to whole micro-units. */
export function chargeOf({ tokens }: Bill, tariff: Tariff, percent = 100): number {
  const kinds = Object.keys(tokens) as (keyof BilledTokens)[];
  const sum = kinds.reduce((total, kind) => total + tokens[kind] * tariff[kind], 0);
  return Math.ceil((sum * percent) / 100 / 1_000_000);
}

export class BillLedger {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  add(bill: Bill): void {
    const fd = openSync(this.#file, 'a', 0o600);
    writeSync(fd, `${JSON.stringify(bill)}\n`);
    fsyncSync(fd);
    closeSync(fd);
  }

  get bills(): Bill[] {
    return readBills(this.#file);
  }
}

/** The bills in a file, also of a provider in another process. */
export function readBills(file: string): Bill[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
}
