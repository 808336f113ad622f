/** The reads of charges from the history index. They are made where the index is written, in the background thread. */
import type { LedgerReads, LedgerSum } from '../../../core/ports/ledger.ts';
import type { Timers } from '../../../kit/env/env.ts';
import { ownTurns } from '../../../kit/slices.ts';
import type { Background } from '../background.ts';
import { readCharge } from './charge-rows.ts';

/** `isComplete` resolves when the index has the charges of all changes that are durable now. */
export const ledgerOf = (
  background: Pick<Background, 'sums' | 'charges'>,
  isComplete: () => Promise<void>,
  timers: Timers,
): LedgerReads => ({
  sums: async (window, by, limit) => {
    await isComplete();
    const sums: LedgerSum[] = [];
    for (const text of await background.sums(window, by, limit)) {
      await ownTurns(timers).next();
      for (const sum of JSON.parse(text) as LedgerSum[]) sums.push(sum);
    }
    return sums;
  },
  page: async (window, after, limit) => {
    await isComplete();
    const rows = await background.charges(window, after, limit);
    await ownTurns(timers).next();
    return rows === '' ? [] : rows.split('\n').map(readCharge);
  },
});
