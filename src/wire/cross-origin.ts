/**
 * What a browser must hear before it lets a page of another origin use this server. Letting a page in at the
 * gate is not enough: without these headers the browser keeps the answer from it.
 */
const READABLE = [
  'x-correlation-id',
  'retry-after',
  'x-backoff-ms',
  'x-orchd-job-id',
  'x-orchd-queue-position',
  'x-orchd-predicted-start-ms',
];
const SENDABLE = [
  'authorization',
  'content-type',
  'idempotency-key',
  'last-event-id',
  'openai-beta',
  'openai-organization',
  'openai-project',
  // Some browsers ask for it, others send their own.
  'user-agent',
  'x-correlation-id',
  'x-orchd-agent',
  'x-orchd-priority',
  'x-orchd-session',
];
const METHODS = ['GET', 'POST', 'PUT', 'DELETE'];
/** For how long a browser need not ask again, in seconds. */
const REMEMBER_SEC = 600;

export function crossOriginHeaders(
  origin: string | undefined,
  allowed: readonly string[],
): Readonly<Record<string, string>> {
  if (origin === undefined || !allowed.includes(origin)) return {};
  return {
    'access-control-allow-origin': origin,
    'access-control-expose-headers': READABLE.join(', '),
    'cross-origin-resource-policy': 'cross-origin',
    vary: 'origin',
  };
}

/** What OpenAI's client says of itself; there are more of them with every version, and nothing here reads them. */
const OF_THE_CLIENT = /^x-stainless-[a-z0-9-]{1,64}$/;
const MAX_ASKED = 64;

/** The answer to a browser that asks first whether a page may do what it is about to do. */
export function preflightHeaders(asked: string | undefined): Readonly<Record<string, string>> {
  const names = (asked ?? '').split(',', MAX_ASKED).map((name) => name.trim().toLowerCase());
  const headers = [...SENDABLE, ...names.filter((name) => OF_THE_CLIENT.test(name))];
  return {
    'access-control-allow-methods': METHODS.join(', '),
    'access-control-allow-headers': headers.join(', '),
    'access-control-max-age': String(REMEMBER_SEC),
  };
}
