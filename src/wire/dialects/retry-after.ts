/**
 * How long a server wants its caller to wait, in every spelling that is in use:
 *
 *   retry-after-ms                   milliseconds
 *   retry-after                      seconds, or a date
 *   x-ratelimit-reset-requests       a duration such as "1s" or "6m0s"; also -tokens (OpenAI, Groq)
 *   anthropic-ratelimit-*-reset      an ISO time
 *
 * The first two are about this request and are preferred; of the others the longest counts, because they do not say
 * which of the limits was reached.
 */
import type { IncomingHttpHeaders } from 'node:http';

const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Undefined where the server names no wait, or one that is over. `now` is used if the answer has no date. */
export function retryAfterMs(
  headers: IncomingHttpHeaders,
  maxMs: number,
  now: number | undefined,
): number | undefined {
  const sentAt = Date.parse(textOf(headers['date']));
  const since = Number.isNaN(sentAt) ? now : sentAt;
  const found =
    positive(numberIn(headers['retry-after-ms'])) ??
    positive(secondsOrDate(textOf(headers['retry-after']), since)) ??
    longest(Object.entries(headers).map(([name, value]) => resetOf(name, textOf(value), since)));
  return found === undefined ? undefined : Math.min(Math.ceil(found), maxMs);
}

function secondsOrDate(text: string, since: number | undefined): number | undefined {
  const seconds = numberIn(text);
  return seconds === undefined ? untilDate(text, since) : seconds * 1000;
}

function resetOf(name: string, text: string, since: number | undefined): number | undefined {
  if (name.startsWith('anthropic-ratelimit-') && name.endsWith('-reset')) return untilDate(text, since);
  return name.startsWith('x-ratelimit-reset-') ? durationOf(text) : undefined;
}

/** A duration as Go writes it: `6m0s`, `1.5s`, `20ms`. */
function durationOf(text: string): number | undefined {
  if (!DURATION.test(text)) return undefined;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g))
    ms += Number(count) * (UNIT_MS[unit as string] as number);
  return ms;
}

function untilDate(text: string, since: number | undefined): number | undefined {
  const at = Date.parse(text);
  return Number.isNaN(at) || since === undefined ? undefined : at - since;
}

function numberIn(value: string | string[] | undefined): number | undefined {
  const text = textOf(value).trim();
  const number = Number(text);
  return text === '' || !Number.isFinite(number) ? undefined : number;
}

const textOf = (value: string | string[] | undefined): string =>
  (Array.isArray(value) ? value[0] : value) ?? '';

const positive = (ms: number | undefined): number | undefined =>
  ms !== undefined && ms > 0 ? ms : undefined;

const longest = (times: readonly (number | undefined)[]): number | undefined =>
  positive(Math.max(0, ...times.map((ms) => ms ?? 0)));
