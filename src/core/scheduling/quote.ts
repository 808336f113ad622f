/** What an attempt on a backend may cost: the price that applies, and how much of it the budgets must hold back. */
import type { Bill } from '../../model/price.ts';
import { boundOf, type EstimatedAsk, estimateOf } from '../money/bound.ts';
import { type PricesView, priceBookOf } from '../money/prices.ts';
import type { BackendEntry } from '../queue/fleet.ts';

export type Quote =
  /** Nothing is to be paid, or nobody has said how much. */
  | { readonly is: 'free' }
  | { readonly is: 'priced'; readonly bill: Bill }
  /** For a hard budget: nobody can say what the attempt costs at most. */
  | { readonly is: 'unpriced' | 'unbounded' };

const FREE: Quote = { is: 'free' };
const UNPRICED: Quote = { is: 'unpriced' };
const UNBOUNDED: Quote = { is: 'unbounded' };

/** `isHard`: a hard budget applies, so that what is held back must be an upper bound. */
export function quote(
  view: PricesView,
  { info }: BackendEntry,
  ask: EstimatedAsk,
  model: string | undefined,
  isHard: boolean,
  now: number,
): Quote {
  const price = priceBookOf(view).find(info.name, model, info.isBatched ?? false, now);
  if (!price) return isHard && info.paid ? UNPRICED : FREE;
  const { rates } = price;
  if (!isHard) return { is: 'priced', bill: { rates, reserved: estimateOf(price, ask), isBound: false } };
  const reserved = boundOf(price, ask);
  return reserved === undefined ? UNBOUNDED : { is: 'priced', bill: { rates, reserved, isBound: true } };
}
