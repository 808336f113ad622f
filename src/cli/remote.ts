/** The server that a command talks to, and what to say when it does not answer or says no. */
import { type ClientError, OrchdClient } from '../client/client.ts';
import { isHttpUrl } from '../config/address.ts';
import { EXIT, type Given, UsageError } from './command.ts';
import { textOf, variable } from './given.ts';

const DEFAULT_URL = 'http://127.0.0.1:8080';

export function connect({ values }: Given): OrchdClient {
  const url = textOf(values, 'url') ?? variable('ORCHD_URL') ?? DEFAULT_URL;
  if (!isHttpUrl(url)) throw new UsageError(`"${url}" is no address such as ${DEFAULT_URL}.`);
  const token = textOf(values, 'token')?.trim() ?? variable('ORCHD_TOKEN');
  if (token !== undefined && !/^[!-~]+$/.test(token)) throw new UsageError('that cannot be a token.');
  return new OrchdClient({ url, ...(token !== undefined && { token }) });
}

/** A request that was wrong by itself, or came from somebody who may not ask. */
const UNUSABLE: readonly number[] = [400, 401, 403];

/** A server that is gone is gone for the next request too. */
export const isUnreachable = (error: ClientError): boolean => error.code === 'UNREACHABLE';

/** What the catalogue advises is meant for programs; these can be said better at a command line. */
const NEXT: Readonly<Record<string, string>> = {
  UNAUTHORIZED: 'Give one with ORCHD_TOKEN or --token; `orchd token create` makes one.',
  UNREACHABLE: 'Start it with `orchd up`, or say with --url or ORCHD_URL where it is.',
  NOT_FOUND: 'Check the id, and --url; `orchd jobs` lists what is there.',
};

export function refusalOf(error: ClientError): { readonly text: string; readonly code: number } {
  const wait = error.retryAfterMs === undefined ? '' : ` Try again in ${error.retryAfterMs} ms.`;
  const advice = NEXT[error.code] ?? error.next;
  const next = advice === undefined ? '' : `\n${advice}`;
  return {
    text: `${error.message} (${error.code})${wait}${next}`,
    code: isUnreachable(error) || UNUSABLE.includes(error.status) ? EXIT.unusable : EXIT.problems,
  };
}
