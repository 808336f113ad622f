/** Charges of closed attempts: derived from changes, and kept in memory where a store has no other place for them. */
import {
  byGroup,
  COUNTS,
  exact,
  keyOf,
  type LedgerCounts,
  type LedgerKey,
  type LedgerPlace,
  type LedgerSum,
  type LedgerWindow,
} from '../core/ports/ledger.ts';
import { type Charge, chargeOf } from '../model/charge.ts';
import { OrchdError } from '../model/errors.ts';
import type { AskRecord, Change } from '../model/records.ts';

/** The requests of the jobs in memory, by uid. */
export type AskOf = (uid: string) => AskRecord | undefined;

/** The charge of a change that closes an attempt. Attempts are closed once; a redrive writes their records again. */
export function chargeIn(change: Change, askOf: AskOf): Charge | undefined {
  if (change.kind !== 'attempt' || change.after?.endedAt === undefined) return undefined;
  const ask = askOf(change.after.job);
  return ask && chargeOf(change.after.job, ask, change.after);
}

export const tooManyGroups = (): OrchdError =>
  new OrchdError(
    'INVALID_PARAMS',
    'there are more groups than an answer may have: choose a shorter time, or group by something of which there is less',
  );

const countsIn = (charge: Charge): LedgerCounts => ({
  ...charge,
  attempts: 1,
  assumed: charge.basis === 'assumed' ? charge.cost : 0,
  unpriced: charge.basis === 'unpriced' ? 1 : 0,
});

/** The order of settlement, byte by byte as databases compare texts that are ASCII. */
export const inOrder = (a: LedgerPlace, b: LedgerPlace): number =>
  a.at - b.at || (a.token < b.token ? -1 : a.token > b.token ? 1 : 0);

export class Charges {
  readonly #charges = new Map<string, Charge>();

  put(charge: Charge): void {
    this.#charges.set(charge.token, charge);
  }

  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): LedgerSum[] {
    const groups = new Map<string, { group: (string | null)[]; sums: number[] }>();
    for (const charge of this.#in(window)) {
      const group = by.map((key) => keyOf(charge, key));
      const name = JSON.stringify(group);
      let found = groups.get(name);
      if (!found) {
        if (groups.size === limit) throw tooManyGroups();
        found = { group, sums: COUNTS.map(() => 0) };
        groups.set(name, found);
      }
      const counts = countsIn(charge);
      for (const [at, count] of COUNTS.entries()) (found.sums[at] as number) += counts[count];
    }
    return [...groups.values()].map(({ group, sums }) => sumOf(group, sums)).sort(byGroup);
  }

  page(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Charge[] {
    const found = [...this.#in(window)].filter((charge) => !after || inOrder(charge, after) > 0);
    return found.sort(inOrder).slice(0, limit);
  }

  drop(settledBefore: number, limit: number): number {
    const old = this.page({ from: 0, to: settledBefore }, undefined, limit);
    for (const { token } of old) this.#charges.delete(token);
    return old.length;
  }

  *#in({ from, to, tenant }: LedgerWindow): Generator<Charge> {
    for (const charge of this.#charges.values()) {
      const isAskedFor = charge.at >= from && charge.at < to;
      if (isAskedFor && (tenant === undefined || charge.tenant === tenant)) yield charge;
    }
  }
}

/** `counts` are in the order of COUNTS. */
export function sumOf(
  group: readonly (string | null)[],
  counts: readonly (number | bigint | string | null)[],
): LedgerSum {
  const fields = Object.fromEntries(COUNTS.map((name, at) => [name, exact(counts[at] ?? 0)]));
  return { group, ...(fields as unknown as LedgerCounts) };
}
