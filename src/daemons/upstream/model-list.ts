/**
 * Asks a server with an OpenAI-compatible API for its models. Whatever else answers at its address (a login page, a
 * redirect, nonsense, a body without an end) becomes an error of the catalogue that says what to do.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { ERRORS, type ErrorCode, OrchdError } from '../../model/errors.ts';
import { MODEL } from '../../model/job-spec.ts';
import { MAX_UPSTREAM_MODELS } from '../../model/upstream-limits.ts';
import type { OutboundReply, Target } from '../../wire/outbound.ts';

/** One entry of the list, with the fields that the server has given it. */
export interface ListedModel {
  readonly id: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

const TIMEOUT_MS = 10_000;
/** The lists of the largest services have about one MiB. */
const MAX_LIST_BYTES = 8 * 2 ** 20;
const isModelName = new RegExp(MODEL);

/** `url` is the base URL of the target, for messages. */
export async function listModels(
  target: Target,
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<readonly ListedModel[]> {
  const hasKey = 'authorization' in headers;
  let reply: OutboundReply;
  try {
    reply = await target.request({
      path: '/v1/models',
      headers,
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_LIST_BYTES,
      signal,
    });
  } catch (error) {
    throw failedRequest(url, error, hasKey);
  }
  if (reply.status !== 200) throw refusedRequest(url, reply.status, hasKey);
  return modelsIn(url, reply);
}

/** Every message names the address, and what to do: they are shown where the upstream is not at hand. */
const problem = (code: ErrorCode, url: string, what: string, reason?: 'timeout'): OrchdError =>
  new OrchdError(code, `${url} ${what}`, reason === undefined ? {} : { reason });

function failedRequest(url: string, error: unknown, hasKey: boolean): OrchdError {
  const { reason } = error instanceof OrchdError ? error.details : {};
  if (reason === 'redirect') {
    const why = hasKey ? ', because it would carry the key elsewhere' : '';
    return problem(
      'UPSTREAM_INVALID',
      url,
      `answers with a redirect, which is not followed${why}: give the address that it leads to`,
    );
  }
  if (reason === 'too_large')
    return problem('UPSTREAM_INVALID', url, `sends more than ${MAX_LIST_BYTES} bytes as its list of models`);
  if (reason === 'malformed')
    return problem('UPSTREAM_INVALID', url, 'does not answer in HTTP: check scheme and port');
  if (reason === 'timeout' || reason === 'idle')
    return problem(
      'UPSTREAM_UNAVAILABLE',
      url,
      `sent no list of models within ${TIMEOUT_MS / 1000} s`,
      'timeout',
    );
  return noAnswer(url, error);
}

/** The problem of an upstream that a request could not reach. */
export function noAnswer(url: string, error: unknown): OrchdError {
  const code = /\(([A-Z_0-9]+)\)/.exec((error as Error).message)?.[1];
  return problem('UPSTREAM_UNAVAILABLE', url, `does not answer${code === undefined ? '' : ` (${code})`}`);
}

/** The path of a base URL; empty if it has none. */
const pathOf = (url: string): string => new URL(url).pathname.replace(/\/$/, '');

function refusedRequest(url: string, status: number, hasKey: boolean): OrchdError {
  if (status === 401 || status === 403) {
    const what = hasKey
      ? `does not accept the key (${status}): put a valid one into the variable that was named for it, and start orchd again`
      : `wants a key (${status}): name the variable that holds it with --upstream-key-env NAME, or key_env in the configuration`;
    return problem('UPSTREAM_KEY_REFUSED', url, what);
  }
  if (status === 429 || status === 408 || status >= 500)
    return problem('UPSTREAM_UNAVAILABLE', url, `answers ${status} when it is asked for its models`);
  return problem(
    'UPSTREAM_INVALID',
    url,
    `answers ${status} to GET ${pathOf(url)}/v1/models. ${ERRORS.UPSTREAM_INVALID.next}`,
  );
}

function modelsIn(url: string, { headers, body }: OutboundReply): readonly ListedModel[] {
  const data = listIn(body.toString());
  if (!Array.isArray(data)) {
    const what = isPage(headers, body)
      ? 'answers with a web page instead of a list of models: is a login in front of it?'
      : 'answers with something that is no list of models.';
    throw problem('UPSTREAM_INVALID', url, `${what} ${ERRORS.UPSTREAM_INVALID.next}`);
  }
  if (data.length > MAX_UPSTREAM_MODELS)
    throw problem(
      'UPSTREAM_INVALID',
      url,
      `lists ${data.length} models, and at most ${MAX_UPSTREAM_MODELS} are taken`,
    );
  const found = new Map<string, ListedModel>();
  for (const entry of data as unknown[]) {
    const fields = (entry ?? {}) as Readonly<Record<string, unknown>>;
    const { id } = fields;
    // Jobs cannot name a model that has other characters.
    if (typeof id === 'string' && isModelName.test(id)) found.set(id, { id, fields });
  }
  if (data.length > 0 && found.size === 0)
    throw problem('UPSTREAM_INVALID', url, 'lists no model that has a usable "id"');
  return [...found.values()];
}

function listIn(text: string): unknown {
  try {
    return (JSON.parse(text) as { data?: unknown } | null)?.data;
  } catch {
    return undefined;
  }
}

const isPage = (headers: IncomingHttpHeaders, body: Buffer): boolean =>
  /html/i.test(headers['content-type'] ?? '') || /^\s*</.test(body.toString('latin1', 0, 100));
