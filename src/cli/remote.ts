/** The server that a command talks to, and what to say when it does not answer or says no. */
import { type ClientError, OrchdClient } from '../client/client.ts';
import { isHttpUrl } from '../config/address.ts';
import { EXIT, type Given, UsageError } from './command.ts';
import { textOf, variable } from './given.ts';

const DEFAULT_URL = 'http://127.0.0.1:8080';
/** For a whole answer; a stream of events may take as long as its job. */
const ANSWER_MS = 30_000;

/** Nothing that could answer was found. */
export class Unreachable extends Error {}

export function connect({ values }: Given): OrchdClient {
  const url = textOf(values, 'url') ?? variable('ORCHD_URL') ?? DEFAULT_URL;
  if (!isHttpUrl(url)) throw new UsageError(`"${url}" is no address such as ${DEFAULT_URL}.`);
  const token = textOf(values, 'token')?.trim() ?? variable('ORCHD_TOKEN');
  if (token !== undefined && !/^[!-~]+$/.test(token)) throw new UsageError('that cannot be a token.');
  return new OrchdClient({
    url,
    fetch: (input, init) => reach(url, input, init),
    ...(token !== undefined && { token }),
  });
}

const reach = async (url: string, input: Parameters<typeof fetch>[0], init: RequestInit = {}) => {
  const isStream = String(input).endsWith('/events');
  const signal = isStream ? init.signal : AbortSignal.timeout(ANSWER_MS);
  let response: Response;
  try {
    response = await fetch(input, { ...init, signal: signal ?? null });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Unreachable(sentenceOf(url, error as Error));
  }
  const type = response.headers.get('content-type') ?? '';
  const isOurs = response.status === 204 || /^(application\/json|text\/event-stream)/.test(type);
  if (!isOurs) {
    throw new Unreachable(`what answers at ${url} is not orchd; name its address with --url or ORCHD_URL`);
  }
  return response;
};

function sentenceOf(url: string, error: Error): string {
  if (error.name === 'TimeoutError') return `${url} did not answer within ${ANSWER_MS / 1000} s`;
  const cause = error.cause as (Error & { code?: string }) | undefined;
  switch (cause?.code) {
    case 'ECONNREFUSED':
      return `nothing answers at ${url}; start it with \`orchd up\`, or say with --url or ORCHD_URL where it is`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `there is no host "${new URL(url).hostname}"`;
    default:
      return `${url} cannot be reached (${cause?.code ?? cause?.message ?? error.message})`;
  }
}

/** A request that was wrong by itself, or came from somebody who may not ask. */
const UNUSABLE: readonly number[] = [400, 401, 403];

/** What the catalogue advises is meant for programs; these can be said better at a command line. */
const NEXT: Readonly<Record<string, string>> = {
  UNAUTHORIZED: 'Give one with ORCHD_TOKEN or --token; `orchd token create` makes one.',
  NOT_FOUND: 'Check the id, and --url; `orchd jobs` lists what is there.',
};

export function refusalOf(error: ClientError): { readonly text: string; readonly code: number } {
  const wait = error.retryAfterMs === undefined ? '' : ` Try again in ${error.retryAfterMs} ms.`;
  const advice = NEXT[error.code] ?? error.next;
  const next = advice === undefined ? '' : `\n${advice}`;
  return {
    text: `${error.message} (${error.code})${wait}${next}`,
    code: UNUSABLE.includes(error.status) ? EXIT.unusable : EXIT.problems,
  };
}
