/**
 * How long a server wants its caller to wait, in every spelling that is in use. Where several disagree, the first of
 * this list that names a wait counts, because those above it are about this request:
 *
 *   1  retry-after-ms                  milliseconds
 *   2  retry-after                     seconds, or a date
 *   3  the error in the body           `retry_after_ms`, `retry_after`, a RetryInfo with its `retryDelay` (Google), or a
 *                                      message with "try again in 6m0s" (OpenAI, Groq) or "retry after 20 seconds" (Azure)
 *   4  *ratelimit-*reset*              a duration, seconds, a time as a number since 1970, or a time in RFC 3339
 *
 * The headers of 4 are those of all limits of an account, reached or not. A limit counts if it has nothing remaining or
 * does not say what it has; of those that count, the last to be reset. Limits that all have something remaining name no
 * wait.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { parseInstant } from '../../kit/instant.ts';
import { fieldsOf, listOf } from './json.ts';

const UNITS: readonly (readonly [RegExp, number])[] = [
  [/^(?:ms|millis(?:econds?)?)$/i, 1],
  [/^(?:s|secs?|seconds?)$/i, 1000],
  [/^(?:m|mins?|minutes?)$/i, 60_000],
  [/^(?:h|hrs?|hours?)$/i, 3_600_000],
  [/^(?:d|days?)$/i, 86_400_000],
];
const NUMBER = /^\d+(?:\.\d+)?$/;
const PIECE = String.raw`\d+(?:\.\d+)?\s?[a-z]+`;
const DURATION = new RegExp(`^${PIECE}(?:\\s?${PIECE})*$`, 'i');
const IN_MESSAGE = new RegExp(`(?:try again|retry) (?:in|after) (${PIECE}(?:\\s?${PIECE})*)`, 'i');
const RESET = /^(?:x-|anthropic-)?ratelimit-(?:.+-)?reset(?:-.+)?$/;
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? .*\d/i;

/** A number from here on is no wait but a time: in seconds since 1970, or in milliseconds. */
const EPOCH_SECONDS = 1e9;
const EPOCH_MS = 1e12;
const MAX_DETAILS = 20;

export interface Answer {
  readonly headers: IncomingHttpHeaders;
  /** The error object in its body. */
  readonly error?: unknown;
}

/**
 * The wait in whole milliseconds, up to `maxMs`. Undefined where the server names none, or one that is over. Times are
 * counted from the date of the answer, and from `now` if it has none.
 */
export function retryAfterMs(
  { headers, error }: Answer,
  maxMs: number,
  now: number | undefined,
): number | undefined {
  const since = dateIn(textOf(headers['date'])) ?? now;
  return bounded(
    positive(numberIn(textOf(headers['retry-after-ms']))) ??
      positive(secondsOrDate(textOf(headers['retry-after']), since)) ??
      waitIn(error) ??
      latestReset(headers, since),
    maxMs,
  );
}

/** The wait that an error object names, for an error without headers: in a stream, or in a stored result. */
export const retryAfterIn = (error: unknown, maxMs: number): number | undefined =>
  bounded(waitIn(error), maxMs);

const bounded = (ms: number | undefined, maxMs: number): number | undefined =>
  ms === undefined ? undefined : Math.min(Math.ceil(ms), maxMs);

function waitIn(error: unknown): number | undefined {
  if (typeof error === 'string') return waitInMessage(error);
  const { retry_after_ms: ms, retry_after: seconds, retryDelay, details, message } = fieldsOf(error);
  const listed = listOf(details).slice(0, MAX_DETAILS);
  return (
    positive(numberOf(ms)) ??
    positive(times(numberOf(seconds), 1000)) ??
    longest([retryDelay, ...listed.map((each) => fieldsOf(each)['retryDelay'])].map(delayOf)) ??
    (typeof message === 'string' ? waitInMessage(message) : undefined)
  );
}

const waitInMessage = (message: string): number | undefined =>
  positive(durationOf(IN_MESSAGE.exec(message)?.[1] ?? ''));

/** A duration of Google's APIs: "30s", or an object with seconds. */
const delayOf = (delay: unknown): number | undefined =>
  typeof delay === 'string' ? durationOf(delay) : times(numberOf(fieldsOf(delay)['seconds']), 1000);

function latestReset(headers: IncomingHttpHeaders, since: number | undefined): number | undefined {
  const resets = Object.entries(headers).map(([name, value]) => {
    if (!RESET.test(name)) return undefined;
    const remaining = numberIn(textOf(headers[name.replace('reset', 'remaining')]));
    return remaining === undefined || remaining === 0 ? resetOf(textOf(value), since) : undefined;
  });
  return longest(resets);
}

function resetOf(text: string, since: number | undefined): number | undefined {
  const number = numberIn(text);
  if (number === undefined) return durationOf(text) ?? untilInstant(dateIn(text), since);
  if (number < EPOCH_SECONDS) return number * 1000;
  return untilInstant(number < EPOCH_MS ? number * 1000 : number, since);
}

function secondsOrDate(text: string, since: number | undefined): number | undefined {
  const seconds = numberIn(text);
  return seconds === undefined ? untilInstant(dateIn(text), since) : seconds * 1000;
}

/** A duration as Go writes it, `6m0s`, `1.5s`, `20ms`, or in words, `20 seconds`. */
function durationOf(text: string): number | undefined {
  if (!DURATION.test(text)) return undefined;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)\s?([a-z]+)/gi)) {
    const known = UNITS.find(([name]) => name.test(unit as string));
    if (!known) return undefined;
    ms += Number(count) * known[1];
  }
  return ms;
}

/** A date of HTTP, also in its obsolete forms, of which one names no time zone; or a time in RFC 3339. */
function dateIn(text: string): number | undefined {
  if (!HTTP_DATE.test(text)) return parseInstant(text);
  const at = Date.parse(/ GMT$/i.test(text) ? text : `${text} GMT`);
  return Number.isNaN(at) ? undefined : at;
}

const untilInstant = (at: number | undefined, since: number | undefined): number | undefined =>
  at === undefined || since === undefined ? undefined : at - since;

function numberIn(given: string): number | undefined {
  const text = given.trim();
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? Number(text) : undefined;
}

const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value)
    ? value
    : typeof value === 'string'
      ? numberIn(value)
      : undefined;

const times = (count: number | undefined, ms: number): number | undefined =>
  count === undefined ? undefined : count * ms;

const textOf = (value: string | string[] | undefined): string =>
  ((Array.isArray(value) ? value[0] : value) ?? '').trim();

const positive = (ms: number | undefined): number | undefined =>
  ms !== undefined && ms > 0 ? ms : undefined;

const longest = (waits: readonly (number | undefined)[]): number | undefined =>
  positive(Math.max(0, ...waits.map((ms) => ms ?? 0)));
