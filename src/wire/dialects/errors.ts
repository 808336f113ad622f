/**
 * Translates the errors of servers and providers into OrchdErrors. `errorFromReply` and `streamError` are for servers
 * that people run themselves (workers, upstreams); `providerError` and `providerStreamError` are for paid accounts, where
 * it matters whether the provider has done, and charges for, any work.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type ErrorDetails, OrchdError } from '../../model/errors.ts';
import { type TurnedAwayReason, upstreamReason } from '../../model/reasons.ts';
import { fieldsOf, type JsonObject, listOf, textOr } from './json.ts';
import { retryAfterIn, retryAfterMs } from './retry-after.ts';

/** An answer with an error status; `body` is its beginning. */
export interface ErrorReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const MAX_MESSAGE_CHARS = 500;
const MAX_SERVER_WAIT_MS = 3_600_000;
const MAX_PROVIDER_WAIT_MS = 24 * 3_600_000;
const TOO_LONG =
  /context_length_exceeded|exceed_context_size|maximum context length|context (size|window|length)|prompt is too long|input token count .{0,40}exceeds/i;

export function errorFromReply({ status, headers, body }: ErrorReply): OrchdError {
  const text = answered('upstream', status, body);
  const wait = retryAfterMs({ headers, error: errorIn(body) }, MAX_SERVER_WAIT_MS, undefined);
  const retryAfter: ErrorDetails = wait === undefined ? {} : { retryAfterMs: wait };
  if (status === 429) {
    const details = { ...retryAfter, policyLabel: 'upstream', turnedAway: 'rate_limited' } as const;
    return new OrchdError('RATE_LIMITED', text, details);
  }
  if (status === 503) return new OrchdError('WORKER_BUSY', text, { ...retryAfter, turnedAway: 'overloaded' });
  if (status === 401 || status === 403) {
    return new OrchdError(
      'EXECUTION_FAILED',
      `the upstream does not accept the key of this worker (${status})`,
      { isUncharged: true },
    );
  }
  const isUncharged = status >= 400 && status < 500 && status !== 408;
  return requestError(status, text, { retriable: status >= 500 || status === 408, isUncharged });
}

/** The error for an error object in the middle of a stream. */
export function streamError(error: unknown): OrchdError {
  const message = messageOf(error);
  return TOO_LONG.test(message)
    ? new OrchdError('CONTEXT_TOO_LONG', message)
    : new OrchdError('EXECUTION_FAILED', `the upstream failed: ${message}`, { retriable: true });
}

/** Error codes and types of providers that say why a request was turned away. */
const TURNED_AWAY_CODES: ReadonlyMap<string, TurnedAwayReason> = new Map([
  ['insufficient_quota', 'quota'],
  ['billing_hard_limit_reached', 'quota'],
  ['billing_not_active', 'quota'],
  ['billing_error', 'quota'],
  ['rate_limit_exceeded', 'rate_limited'],
  ['rate_limit_error', 'rate_limited'],
  ['overloaded_error', 'overloaded'],
  ['server_overloaded', 'overloaded'],
  ['service_unavailable', 'overloaded'],
  ['authentication_error', 'auth_required'],
  ['permission_error', 'auth_required'],
  ['invalid_api_key', 'auth_required'],
  // Google's, of which none is charged for.
  ['RESOURCE_EXHAUSTED', 'rate_limited'],
  ['UNAVAILABLE', 'overloaded'],
  ['UNAUTHENTICATED', 'auth_required'],
  ['PERMISSION_DENIED', 'auth_required'],
]);
/** Anthropic reports an empty account with 400 and the type of any other invalid request. */
const NO_CREDIT = /credit balance is too low/i;
/** OpenAI's own message, under changing types. */
const OVERLOADED = /\boverloaded\b/i;
/** Google reports a wrong key with 400, and a quota of a day like any limit: only the details of the error tell. */
const WRONG_KEY = 'API_KEY_INVALID';
const QUOTA_OF_A_DAY = /PerDay/;
const MAX_DETAILS = 20;

/** Errors of a provider that the same request would get again. */
const ABOUT_THE_REQUEST: ReadonlySet<string> = new Set([
  'invalid_request_error',
  'invalid_prompt',
  'not_found_error',
  'request_too_large',
  'INVALID_ARGUMENT',
  'FAILED_PRECONDITION',
  'OUT_OF_RANGE',
  'NOT_FOUND',
]);

/**
 * The error for an answer of a provider to a request that would have begun a generation. A 500 is the provider's own: it
 * charges nothing for it. Any other 5xx, and 408, may come from a proxy that has lost the answer, which proves nothing; so
 * does a 503 whose error the provider does not name.
 */
export function providerError(reply: ErrorReply, now: number): OrchdError {
  const { status, headers, body } = reply;
  const reason = turnedAwayBy(reply);
  // The provider's own message about a key may quote parts of it.
  const text =
    reason === 'auth_required'
      ? `the provider does not accept the key (${status})`
      : answered('provider', status, body);
  if (reason !== undefined) {
    const wait = retryAfterMs({ headers, error: errorIn(body) }, MAX_PROVIDER_WAIT_MS, now);
    return turnedAway(reason, text, wait);
  }
  if (status > 500 || status === 408) return new OrchdError('UNKNOWN_OUTCOME', text);
  return requestError(status, text, { retriable: status === 500, isUncharged: status >= 400 });
}

function turnedAwayBy({ status, body }: ErrorReply): TurnedAwayReason | undefined {
  const error = errorIn(body);
  const code = codesOf(error)
    .map((each) => TURNED_AWAY_CODES.get(each))
    .find((each) => each !== undefined);
  if (status === 429) return code === 'quota' || isQuotaOfADay(error) ? 'quota' : 'rate_limited';
  if (status === 400 && detailsOf(error).some(({ reason }) => reason === WRONG_KEY)) return 'auth_required';
  if (status === 402 || (status === 400 && NO_CREDIT.test(messageOf(error)))) return 'quota';
  if (status === 401 || status === 403) return code === 'quota' ? 'quota' : 'auth_required';
  if (status === 529) return 'overloaded';
  // Only an error that the provider names itself: a proxy in front of it may answer in JSON too.
  return status === 503 && (code === 'overloaded' || OVERLOADED.test(messageOf(error)))
    ? 'overloaded'
    : undefined;
}

/**
 * The error for an error object inside of a stream that began with 200, or in the result of a call. Only a call that
 * has not `begun`, of which nothing was counted or sent, was turned away.
 */
export function providerStreamError(error: unknown, hasBegun: boolean): OrchdError {
  const message = messageOf(error);
  const text = `the provider failed: ${message}`;
  const codes = codesOf(error);
  const reason = codes.map((each) => TURNED_AWAY_CODES.get(each)).find((each) => each !== undefined);
  if (reason !== undefined && !hasBegun)
    return turnedAway(reason, text, retryAfterIn(error, MAX_PROVIDER_WAIT_MS));
  if (TOO_LONG.test(message)) return new OrchdError('CONTEXT_TOO_LONG', text);
  const retriable = !codes.some((code) => ABOUT_THE_REQUEST.has(code));
  return new OrchdError('EXECUTION_FAILED', text, { retriable });
}

const TURNED_AWAY_ERRORS = {
  rate_limited: 'RATE_LIMITED',
  quota: 'RATE_LIMITED',
  overloaded: 'WORKER_BUSY',
  unreachable: 'WORKER_UNAVAILABLE',
  auth_required: 'EXECUTION_FAILED',
} as const satisfies Record<TurnedAwayReason, string>;

export function turnedAway(reason: TurnedAwayReason, text: string, waitMs: number | undefined): OrchdError {
  return new OrchdError(TURNED_AWAY_ERRORS[reason], text, {
    reason,
    turnedAway: reason,
    retriable: true,
    ...(waitMs !== undefined && { retryAfterMs: waitMs }),
    ...(TURNED_AWAY_ERRORS[reason] === 'RATE_LIMITED' && { policyLabel: 'provider' }),
  });
}

/** The error for an answer that is about the request itself, or about the server. */
function requestError(
  status: number,
  text: string,
  { retriable, isUncharged }: Required<Pick<ErrorDetails, 'retriable' | 'isUncharged'>>,
): OrchdError {
  const charge = isUncharged ? { isUncharged } : {};
  if ((status === 400 || status === 413 || status === 422) && TOO_LONG.test(text)) {
    return new OrchdError('CONTEXT_TOO_LONG', text, charge);
  }
  const reason = upstreamReason(status);
  return new OrchdError('EXECUTION_FAILED', text, {
    retriable,
    ...charge,
    ...(reason !== undefined && { reason }),
  });
}

function answered(who: 'upstream' | 'provider', status: number, body: Buffer): string {
  const detail = messageOf(errorIn(body));
  return detail === '' ? `the ${who} answered ${status}` : `the ${who} answered ${status}: ${detail}`;
}

/** The error object of a body; undefined where the body is no JSON object. Google sends a list with one object. */
function errorIn(body: Buffer): unknown {
  try {
    const parsed: unknown = JSON.parse(body.toString());
    const value = (Array.isArray(parsed) ? parsed[0] : parsed) as { error?: unknown } | null | undefined;
    return typeof value === 'object' ? (value?.error ?? value ?? undefined) : undefined;
  } catch {
    return undefined;
  }
}

function codesOf(error: unknown): string[] {
  const { code, type, status } = (error ?? {}) as Record<string, unknown>;
  return [code, type, status].filter((word) => typeof word === 'string');
}

/** The details of an error of Google. */
const detailsOf = (error: unknown): JsonObject[] =>
  listOf(fieldsOf(error)['details']).slice(0, MAX_DETAILS).map(fieldsOf);

const isQuotaOfADay = (error: unknown): boolean =>
  detailsOf(error)
    .flatMap(({ violations }) => listOf(violations).slice(0, MAX_DETAILS).map(fieldsOf))
    .some(({ quotaId }) => QUOTA_OF_A_DAY.test(textOr(quotaId)));

export function messageOf(error: unknown): string {
  if (typeof error === 'string') return error.slice(0, MAX_MESSAGE_CHARS);
  const { message } = (error ?? {}) as Record<string, unknown>;
  const words = [codesOf(error)[0], message].filter((word) => typeof word === 'string');
  return words.join(': ').slice(0, MAX_MESSAGE_CHARS);
}
