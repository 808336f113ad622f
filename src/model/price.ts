/**
 * Prices, in whole micro-units (millionths) of one currency. Every count of an execution has a rate of its own, and no
 * count is part of another one (usage.ts): no token is paid twice.
 */
import type { TokenCounts } from './usage.ts';

/**
 * The price of a model on a seat, as the operator has written it. Tokens are priced per million: $3 per million tokens
 * are 3,000,000 micro-dollars, and most public prices are whole numbers only per million.
 */
export interface PriceSpec {
  readonly model: string;
  /** The name of a backend; undefined: every backend that has no price of its own for the model. */
  readonly seat?: string | undefined;
  /** The first instant at which the price holds, in milliseconds since 1970; undefined: from the beginning. */
  readonly validFrom?: number | undefined;
  readonly input?: number | undefined;
  /** By default like `input`. */
  readonly cacheRead?: number | undefined;
  /** By default like `input`. */
  readonly cacheWrite?: number | undefined;
  readonly output?: number | undefined;
  /** By default like `output`. */
  readonly reasoning?: number | undefined;
  /** For each image of the input, beside its tokens. */
  readonly image?: number | undefined;
  /** For each execution. */
  readonly request?: number | undefined;
  /** For each second that an execution holds its slot. */
  readonly second?: number | undefined;
  /** The share of the price that a seat takes whose provider runs requests in batches, in percent; 100 by default. */
  readonly batchPercent?: number | undefined;
  /** The most tokens that the provider adds to each message. */
  readonly messageOverhead?: number | undefined;
  /** The most tokens that the provider adds to each request, such as its own instructions for tools. */
  readonly requestOverhead?: number | undefined;
  /** The most tokens of one image; undefined: an image has no bound, and is refused on hard budgets. */
  readonly imageTokens?: number | undefined;
}

/** Prices set at run time; they replace all configured ones. */
export interface PricesRecord {
  readonly v: 1;
  readonly by: string;
  readonly at: number;
  readonly prices: readonly PriceSpec[];
}

/**
 * The rates of a price, frozen into an attempt when it is recorded. A list instead of an object: every record of a paid
 * attempt has one.
 */
export type Rates = readonly [
  input: number,
  cacheRead: number,
  cacheWrite: number,
  output: number,
  reasoning: number,
  image: number,
  request: number,
  second: number,
  /** 100, or `batchPercent` on a seat that runs batches. */
  percent: number,
];

/** What an execution is charged for beside its tokens. */
export interface OtherCounts {
  readonly images: number;
  /** How long it held its slot. */
  readonly ms: number;
}

/** The money of an attempt. Rates, reservation and kind of bound never change after the attempt is recorded. */
export interface Bill {
  readonly rates: Rates;
  /** Held back in every budget of the job while the attempt is open. */
  readonly reserved: number;
  /** Whether `reserved` is an upper bound of the cost, and not an estimate. */
  readonly isBound: boolean;
  /** Set when the attempt is closed. */
  readonly cost?: number | undefined;
  /**
   * Where `cost` comes from: the provider `told` the counts, they are `assumed` to be what was reserved because nobody
   * knows them, or the provider did `nothing`.
   */
  readonly basis?: 'told' | 'assumed' | 'nothing' | undefined;
}

const PER_MILLION = 1_000_000n;

/**
 * The cost in micro-units. It is rounded up once, at the end: a provider rounds its bill at most so often. Exact for any
 * counts, since a sum of products may exceed what a number can hold.
 */
export function costOf(rates: Rates, tokens: TokenCounts, other: OtherCounts): number {
  return smallCost(rates, tokens, other) ?? exactCost(rates, tokens, other);
}

/**
 * The same with plain numbers, which every claim and every end can afford; undefined if one of them could be inexact, or
 * the price has parts that are rare.
 */
function smallCost(rates: Rates, tokens: TokenCounts, { images, ms }: OtherCounts): number | undefined {
  const [input, cacheRead, cacheWrite, output, reasoning, image, request, second, percent] = rates;
  if (percent !== 100 || (second > 0 && ms > 0)) return undefined;
  const perToken =
    countOf(tokens.input) * input +
    countOf(tokens.cacheRead) * cacheRead +
    countOf(tokens.cacheWrite) * cacheWrite +
    countOf(tokens.output) * output +
    countOf(tokens.reasoning) * reasoning;
  const perOther = countOf(images) * image + request;
  if (perToken > Number.MAX_SAFE_INTEGER || perOther > Number.MAX_SAFE_INTEGER / 2) return undefined;
  const rest = perToken % 1_000_000;
  return perOther + (perToken - rest) / 1_000_000 + (rest > 0 ? 1 : 0);
}

function exactCost(rates: Rates, tokens: TokenCounts, other: OtherCounts): number {
  const [input, cacheRead, cacheWrite, output, reasoning, image, request, second, percent] = rates;
  const perToken =
    product(tokens.input, input) +
    product(tokens.cacheRead, cacheRead) +
    product(tokens.cacheWrite, cacheWrite) +
    product(tokens.output, output) +
    product(tokens.reasoning, reasoning);
  const perOther = product(other.images, image) + BigInt(request);
  const perSecond = product(other.ms, second);
  // All of it in millionths of thousandths of a hundredth of a micro-unit, so that nothing is lost before the end.
  const whole = PER_MILLION * 1000n * 100n;
  const exact =
    (perToken * 1000n + perOther * PER_MILLION * 1000n + perSecond * PER_MILLION) * BigInt(percent);
  return Number((exact + whole - 1n) / whole);
}

/** Counts come from providers: what is no whole number from 0 up counts as nothing here, and is refused where it is read. */
const countOf = (count: number): number => (Number.isSafeInteger(count) && count > 0 ? count : 0);

const product = (count: number, rate: number): bigint => BigInt(countOf(count)) * BigInt(rate);
