/** What the calls of models of a recorded run have used: what it would cost, about, to run it for real. */
import type { RecordedCall } from './recorded-run.ts';

export interface RunCost {
  /** Calls of models. */
  readonly calls: number;
  readonly tokens: number;
  /** In millionths of the currency, of the calls whose model had a price. */
  readonly amount: number;
  /** The calls whose cost, or whose number of tokens, nobody has recorded. */
  readonly unpriced: number;
  readonly uncounted: number;
}

export const NO_COST: RunCost = { calls: 0, tokens: 0, amount: 0, unpriced: 0, uncounted: 0 };

const MODEL_CALL = 'inference';

export function costOf(calls: readonly RecordedCall[]): RunCost {
  return calls
    .filter(({ type }) => type === MODEL_CALL)
    .map(({ usage, cost }) => ({
      calls: 1,
      tokens: (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0),
      amount: cost?.amount ?? 0,
      unpriced: cost ? 0 : 1,
      uncounted: usage ? 0 : 1,
    }))
    .reduce(costSum, NO_COST);
}

export const costSum = (one: RunCost, other: RunCost): RunCost => ({
  calls: one.calls + other.calls,
  tokens: one.tokens + other.tokens,
  amount: one.amount + other.amount,
  unpriced: one.unpriced + other.unpriced,
  uncounted: one.uncounted + other.uncounted,
});
