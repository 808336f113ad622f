/** Prices as people write them, and the specs that the brain keeps of them. */
import { Type } from 'typebox';
import { parseInstant } from '../kit/instant.ts';
import { OrchdError } from '../model/errors.ts';
import { MAX_PRICES, WrittenPrice } from '../model/http/prices.ts';
import type { PriceSpec } from '../model/price.ts';

const A_TIME = 'a date like 2026-12-01, or a time with its offset like 2026-12-01T08:00+01:00';

export const PricesSchema = Type.Array(
  Type.Object(
    {
      ...WrittenPrice.properties,
      valid_from: Type.Optional(
        Type.Refine(Type.String({ expected: A_TIME }), (text) => startOf(text) !== undefined),
      ),
    },
    { additionalProperties: false },
  ),
  {
    default: [],
    maxItems: MAX_PRICES,
    expected: 'a list of prices, each with a model and whole numbers',
  },
);

export const CurrencySchema = Type.String({
  default: 'USD',
  pattern: '^[A-Za-z][A-Za-z0-9 ._-]{0,15}$',
  expected: 'the name of a currency, such as USD',
});

/** Throws INVALID_PARAMS for a `valid_from` that is no time. */
export const priceSpecs = (prices: readonly WrittenPrice[]): PriceSpec[] =>
  prices.map((price, at) => ({
    model: price.model,
    ...(price.seat !== undefined && { seat: price.seat }),
    ...(price.valid_from !== undefined && { validFrom: validFrom(price.valid_from, at) }),
    ...(price.input !== undefined && { input: price.input }),
    ...(price.cache_read !== undefined && { cacheRead: price.cache_read }),
    ...(price.cache_write !== undefined && { cacheWrite: price.cache_write }),
    ...(price.output !== undefined && { output: price.output }),
    ...(price.reasoning !== undefined && { reasoning: price.reasoning }),
    ...(price.image !== undefined && { image: price.image }),
    ...(price.request !== undefined && { request: price.request }),
    ...(price.second !== undefined && { second: price.second }),
    ...(price.batch_percent !== undefined && { batchPercent: price.batch_percent }),
    ...(price.message_overhead !== undefined && { messageOverhead: price.message_overhead }),
    ...(price.request_overhead !== undefined && { requestOverhead: price.request_overhead }),
    ...(price.image_tokens !== undefined && { imageTokens: price.image_tokens }),
  }));

export const priceList = (prices: readonly PriceSpec[]): WrittenPrice[] =>
  prices.map((price) => ({
    model: price.model,
    ...(price.seat !== undefined && { seat: price.seat }),
    ...(price.validFrom !== undefined && { valid_from: new Date(price.validFrom).toISOString() }),
    ...(price.input !== undefined && { input: price.input }),
    ...(price.cacheRead !== undefined && { cache_read: price.cacheRead }),
    ...(price.cacheWrite !== undefined && { cache_write: price.cacheWrite }),
    ...(price.output !== undefined && { output: price.output }),
    ...(price.reasoning !== undefined && { reasoning: price.reasoning }),
    ...(price.image !== undefined && { image: price.image }),
    ...(price.request !== undefined && { request: price.request }),
    ...(price.second !== undefined && { second: price.second }),
    ...(price.batchPercent !== undefined && { batch_percent: price.batchPercent }),
    ...(price.messageOverhead !== undefined && { message_overhead: price.messageOverhead }),
    ...(price.requestOverhead !== undefined && { request_overhead: price.requestOverhead }),
    ...(price.imageTokens !== undefined && { image_tokens: price.imageTokens }),
  }));

function validFrom(text: string, at: number): number {
  const from = startOf(text);
  if (from !== undefined) return from;
  const field = `prices[${at}].valid_from`;
  throw new OrchdError('INVALID_PARAMS', `${field}: "${text}" is not ${A_TIME}`, { field });
}

const DATE = /^\d{4}-\d{2}-\d{2}/;

/** The instant of a date or a time; undefined for a text that is neither, and for days that no calendar has. */
function startOf(text: string): number | undefined {
  const [date] = DATE.exec(text) ?? [];
  // Date.parse takes the 31st of February for a day of March.
  if (date === undefined || !isDay(date)) return undefined;
  return parseInstant(date === text ? `${text}T00:00Z` : text);
}

function isDay(date: string): boolean {
  const at = Date.parse(`${date}T00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(date);
}
