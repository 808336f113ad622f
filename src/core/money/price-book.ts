/**
 * The prices in force, found by seat, model and time. The most specific one applies: that of the model on the seat, of
 * the model, of the seat (`model: "*"`), of everything; among those of one name the last that has begun.
 */
import { OrchdError } from '../../model/errors.ts';
import type { PriceSpec, Rates } from '../../model/price.ts';

/** A price as attempts use it. The objects are shared: a million attempts of one price hold the same one. */
export interface Price {
  readonly rates: Rates;
  /** The rates with each token of the input, and of the output, at the dearest rate that it can have. */
  readonly dearest: Rates;
  readonly messageOverhead: number;
  readonly requestOverhead: number;
  readonly imageTokens: number | undefined;
  /** Whether the time of an execution costs something. */
  readonly perSecond: boolean;
}

/** The model of a price that holds for every model, and for jobs without one. */
export const ANY_MODEL = '*';

/** More than the tokens that the chat templates of known providers add to a message. */
const DEFAULT_MESSAGE_OVERHEAD = 16;
/** More than the instructions that known providers add to a request with tools. */
const DEFAULT_REQUEST_OVERHEAD = 1024;

/** Larger numbers are mistakes: a micro-unit rate of 1e15 is a billion of the currency. */
export const MAX_RATE = 1e15;

/** A price and the time from which it holds. */
interface Period {
  readonly from: number;
  /** Its place in the list of prices. */
  readonly at: number;
  readonly single: Price;
  readonly batched: Price;
}

/** The periods of one name, the latest first. */
type Periods = readonly Period[];

/** The prices of one seat, or those that name no seat, by model. */
type ByModel = Map<string, Period[]>;

export class PriceBook {
  readonly #bySeat = new Map<string, ByModel>();
  readonly #ofAnySeat: ByModel = new Map();

  /** Throws INVALID_PARAMS for a number that is no price, and for two prices of one name and time. */
  constructor(prices: readonly PriceSpec[]) {
    for (const [at, price] of prices.entries()) this.#add(price, at);
    for (const byModel of [this.#ofAnySeat, ...this.#bySeat.values()])
      for (const periods of byModel.values()) sortPeriods(periods, prices);
  }

  /** The price of an attempt that is recorded `now`; `batched` on a seat whose provider runs requests in batches. */
  find(seat: string, model: string | undefined, batched: boolean, now: number): Price | undefined {
    const ofSeat = this.#bySeat.get(seat);
    const period =
      (model !== undefined && (begun(ofSeat?.get(model), now) ?? begun(this.#ofAnySeat.get(model), now))) ||
      (begun(ofSeat?.get(ANY_MODEL), now) ?? begun(this.#ofAnySeat.get(ANY_MODEL), now));
    return batched ? period?.batched : period?.single;
  }

  #add(spec: PriceSpec, at: number): void {
    checkNumbers(spec, at);
    const { seat, model, validFrom: from = Number.NEGATIVE_INFINITY } = spec;
    const byModel = seat === undefined ? this.#ofAnySeat : got(this.#bySeat, seat, (): ByModel => new Map());
    got(byModel, model, (): Period[] => []).push({ from, at, ...pricesOf(spec) });
  }
}

/** Sorts the periods of one name; throws if two begin at the same time. */
function sortPeriods(periods: Period[], prices: readonly PriceSpec[]): void {
  // Two periods without a start have a difference that is no number.
  periods.sort((a, b) => (a.from === b.from ? b.at - a.at : b.from - a.from));
  for (const [i, { from, at }] of periods.entries())
    if (periods[i + 1]?.from === from) throw twice(prices[at] as PriceSpec, at);
}

/** Returns the value of a key, which is made first if there is none. */
function got<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

const begun = (periods: Periods | undefined, now: number): Period | undefined =>
  periods?.find(({ from }) => from <= now);

function pricesOf(spec: PriceSpec): Pick<Period, 'single' | 'batched'> {
  const single = priceOf(spec, 100);
  const percent = spec.batchPercent ?? 100;
  return { single, batched: percent === 100 ? single : priceOf(spec, percent) };
}

function priceOf(spec: PriceSpec, percent: number): Price {
  const { input = 0, output = 0, image = 0, request = 0, second = 0 } = spec;
  const { cacheRead = input, cacheWrite = input, reasoning = output } = spec;
  const rates = [input, cacheRead, cacheWrite, output, reasoning, image, request, second, percent] as const;
  return Object.freeze({
    // Not frozen: JSON.stringify takes five times as long for a record with a frozen array in it.
    rates,
    dearest: dearest(rates),
    messageOverhead: spec.messageOverhead ?? DEFAULT_MESSAGE_OVERHEAD,
    requestOverhead: spec.requestOverhead ?? DEFAULT_REQUEST_OVERHEAD,
    imageTokens: spec.imageTokens,
    perSecond: second > 0,
  });
}

function dearest(rates: Rates): Rates {
  const [input, cacheRead, cacheWrite, output, reasoning, image, request, second, percent] = rates;
  const perInput = Math.max(input, cacheRead, cacheWrite);
  return [perInput, 0, 0, Math.max(output, reasoning), 0, image, request, second, percent];
}

/** The numbers of a price by their names in requests, where callers have written them. */
const NUMBERS = {
  input: 'input',
  cacheRead: 'cache_read',
  cacheWrite: 'cache_write',
  output: 'output',
  reasoning: 'reasoning',
  image: 'image',
  request: 'request',
  second: 'second',
  batchPercent: 'batch_percent',
  messageOverhead: 'message_overhead',
  requestOverhead: 'request_overhead',
  imageTokens: 'image_tokens',
} as const satisfies Partial<Record<keyof PriceSpec, string>>;

function checkNumbers(spec: PriceSpec, at: number): void {
  for (const [key, written] of Object.entries(NUMBERS)) {
    const value = spec[key as keyof typeof NUMBERS];
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0 && value <= MAX_RATE)) continue;
    throw invalid(at, written, `must be a whole number from 0 to ${MAX_RATE}, not ${value}`);
  }
  if (spec.validFrom !== undefined && !Number.isSafeInteger(spec.validFrom))
    throw invalid(at, 'valid_from', 'must be a time');
}

function twice({ model, seat, validFrom }: PriceSpec, at: number): OrchdError {
  const where = seat === undefined ? '' : ` on "${seat}"`;
  const when = validFrom === undefined ? '' : ` from ${new Date(validFrom).toISOString()} on`;
  return invalid(at, 'model', `"${model}" has two prices${where}${when}`);
}

const invalid = (at: number, field: string, what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `prices[${at}].${field}: ${what}`, { field: `prices[${at}].${field}` });
