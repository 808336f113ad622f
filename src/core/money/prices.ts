/**
 * The prices of a brain: those set at run time, else those of the configuration. Attempts that are recorded already keep
 * the rates that were frozen into them.
 */
import type { Cause } from '../../model/causes.ts';
import type { PriceSpec, PricesRecord } from '../../model/price.ts';
import type { EngineSettings } from '../settings.ts';
import { PriceBook } from './price-book.ts';

/** The id of the record with the prices. */
const PRICES_ID = 'prices';

/** What of an engine the prices are read from. */
export interface PricesView {
  readonly state: {
    readonly tables: { readonly prices: { get(id: string): PricesRecord | undefined } };
  };
  readonly settings: Pick<EngineSettings, 'prices'>;
}

/** What of a turn is needed to set prices; a turn imports this folder, not the other way round. */
export interface PricesTurn extends PricesView {
  readonly now: number;
  put(kind: 'prices', id: string, after: PricesRecord, cause: Cause): unknown;
}

export const pricesOf = ({ state, settings }: PricesView): readonly PriceSpec[] =>
  state.tables.prices.get(PRICES_ID)?.prices ?? settings.prices;

/** The book of each list of prices: lists are replaced as a whole, and seldom. */
const books = new WeakMap<readonly PriceSpec[], PriceBook>();

/** The prices in force; throws INVALID_PARAMS if those of the configuration are invalid. */
export const priceBookOf = (view: PricesView): PriceBook => bookOf(pricesOf(view));

function bookOf(prices: readonly PriceSpec[]): PriceBook {
  const known = books.get(prices);
  if (known) return known;
  const book = new PriceBook(prices);
  books.set(prices, book);
  return book;
}

/** Replaces all prices; throws, and changes nothing, if one is invalid. */
export function setPrices(turn: PricesTurn, prices: readonly PriceSpec[], by: string): PricesRecord {
  bookOf(prices);
  const record: PricesRecord = { v: 1, by, at: turn.now, prices };
  turn.put('prices', PRICES_ID, record, { is: 'set', by });
  return record;
}
