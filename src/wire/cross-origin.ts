/**
 * The CORS headers. Without them a browser keeps our answers from pages of other origins, even from those that the
 * access gate accepts.
 */
import { ANSWER_HEADERS, CORRELATION_ID, JOB_OPTION_HEADERS, LAST_EVENT_ID, MCP_HEADERS } from './headers.ts';

/** Response headers that a page may read. */
const EXPOSED_HEADERS = [CORRELATION_ID, ...ANSWER_HEADERS];
/** Request headers that a page may send. */
const ALLOWED_REQUEST_HEADERS = [
  'authorization',
  'content-type',
  LAST_EVENT_ID,
  'openai-beta',
  'openai-organization',
  'openai-project',
  // Some browsers list it in their preflight request, others set it themselves.
  'user-agent',
  CORRELATION_ID,
  ...JOB_OPTION_HEADERS,
  ...MCP_HEADERS,
];
const METHODS = ['GET', 'POST', 'PUT', 'DELETE'];
/** How long a browser may cache the answer to a preflight request. */
const MAX_AGE_SEC = 600;

export function crossOriginHeaders(
  origin: string | undefined,
  allowed: readonly string[],
): Readonly<Record<string, string>> {
  if (origin === undefined || !allowed.includes(origin)) return {};
  return {
    'access-control-allow-origin': origin,
    'access-control-expose-headers': EXPOSED_HEADERS.join(', '),
    'cross-origin-resource-policy': 'cross-origin',
    vary: 'origin',
  };
}

/**
 * Headers by which OpenAI's client describes itself. Each version adds some and nothing here reads them: all are
 * allowed.
 */
const OPENAI_CLIENT_HEADER = /^x-stainless-[a-z0-9-]{1,64}$/;
/** The names in a preflight request beyond this number are ignored, which bounds the size of the answer. */
const MAX_REQUESTED_HEADERS = 64;

/** The headers that answer a preflight request. `requestedHeaders` is its `access-control-request-headers`. */
export function preflightHeaders(requestedHeaders: string | undefined): Readonly<Record<string, string>> {
  const names = (requestedHeaders ?? '')
    .split(',', MAX_REQUESTED_HEADERS)
    .map((name) => name.trim().toLowerCase());
  const headers = [...ALLOWED_REQUEST_HEADERS, ...names.filter((name) => OPENAI_CLIENT_HEADER.test(name))];
  return {
    'access-control-allow-methods': METHODS.join(', '),
    'access-control-allow-headers': headers.join(', '),
    'access-control-max-age': String(MAX_AGE_SEC),
  };
}
