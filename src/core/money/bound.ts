/** What an attempt can cost at most, and what it is likely to cost, before anything is known of its use. */
import type { JobSpec } from '../../model/job-spec.ts';
import { costOf } from '../../model/price.ts';
import type { AskRecord } from '../../model/records.ts';
import type { Price } from './price-book.ts';

/** The fields of an ask that bound its cost. */
export type BoundedAsk = Pick<AskRecord, 'payloadBytes' | 'messages' | 'maxOutput' | 'images'> & {
  readonly spec: Pick<JobSpec, 'timeout_ms'>;
};

export type EstimatedAsk = BoundedAsk & Pick<AskRecord, 'tokens'>;

/**
 * An upper bound of the cost in micro-units; undefined where something that costs money has no bound. A token is at
 * least one byte of the payload, so that a payload has no more tokens than bytes, beside those that the provider adds.
 * `timeoutMs` bounds the time, where it has a price.
 */
export function boundOf(
  price: Price,
  ask: BoundedAsk,
  timeoutMs: number | undefined = ask.spec.timeout_ms,
): number | undefined {
  const rates = price.dearest;
  const [perInput, , , perOutput] = rates;
  const input = perInput === 0 ? 0 : mostInput(price, ask);
  const output = perOutput === 0 ? 0 : ask.maxOutput;
  const ms = price.perSecond ? timeoutMs : 0;
  const { images = 0 } = ask;
  if (!isCount(input) || !isCount(output) || !isCount(ms) || !isCount(images)) return undefined;
  return costOf(rates, { input, output, cacheRead: 0, cacheWrite: 0, reasoning: 0 }, { images, ms });
}

/** costOf takes any other number for nothing. */
const isCount = (count: number | undefined): count is number => Number.isSafeInteger(count);

function mostInput(price: Price, { payloadBytes, messages = 1, images = 0 }: BoundedAsk): number | undefined {
  if (images > 0 && price.imageTokens === undefined) return undefined;
  const ofImages = images === 0 ? 0 : images * (price.imageTokens ?? 0);
  return payloadBytes + messages * price.messageOverhead + price.requestOverhead + ofImages;
}

/** Assumed for an answer without `max_tokens`, as in the estimate of an ask's `tokens`. */
const ASSUMED_OUTPUT = 256;
const ASSUMED_IMAGE_TOKENS = 1024;
const ASSUMED_BYTES_PER_TOKEN = 4;
/** Executions are mostly much shorter than their timeout. */
const ASSUMED_MS = 60_000;

/** What the attempt is likely to cost, for budgets that only warn: nothing is cached, and nothing is reasoning. */
export function estimateOf(
  price: Price,
  ask: EstimatedAsk,
  timeoutMs: number | undefined = ask.spec.timeout_ms,
): number {
  const { images = 0, maxOutput = ASSUMED_OUTPUT } = ask;
  const tokens = ask.tokens ?? Math.ceil(ask.payloadBytes / ASSUMED_BYTES_PER_TOKEN) + maxOutput;
  const output = Math.min(maxOutput, tokens);
  const input = tokens - output + images * (price.imageTokens ?? ASSUMED_IMAGE_TOKENS);
  const ms = Math.min(timeoutMs ?? ASSUMED_MS, ASSUMED_MS);
  return costOf(price.rates, { input, output, cacheRead: 0, cacheWrite: 0, reasoning: 0 }, { images, ms });
}
