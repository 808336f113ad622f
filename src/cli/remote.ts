/** The server that a command talks to. */
import { OrchdClient } from '../client/client.ts';
import { isHttpUrl } from '../config/address.ts';
import { type Given, UsageError } from './command.ts';
import { textOf, variable } from './given.ts';

const DEFAULT_URL = 'http://127.0.0.1:8080';

export function connect({ values }: Given): OrchdClient {
  const url = textOf(values, 'url') ?? variable('ORCHD_URL') ?? DEFAULT_URL;
  if (!isHttpUrl(url)) throw new UsageError(`"${url}" is no address such as ${DEFAULT_URL}.`);
  const token = textOf(values, 'token')?.trim() ?? variable('ORCHD_TOKEN');
  if (token !== undefined && !/^[!-~]+$/.test(token)) throw new UsageError('that cannot be a token.');
  return new OrchdClient({ url, ...(token !== undefined && { token }) });
}
