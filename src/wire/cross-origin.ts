/**
 * The headers of CORS, without which a browser keeps our answers from pages of other origins, also from those that
 * the gate lets in.
 */
import { ANSWER_HEADERS, CORRELATION_ID, JOB_OPTION_HEADERS, LAST_EVENT_ID } from './headers.ts';

const READABLE = [CORRELATION_ID, ...ANSWER_HEADERS];
const SENDABLE = [
  'authorization',
  'content-type',
  LAST_EVENT_ID,
  'openai-beta',
  'openai-organization',
  'openai-project',
  // Some browsers ask for it, others send their own.
  'user-agent',
  CORRELATION_ID,
  ...JOB_OPTION_HEADERS,
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
