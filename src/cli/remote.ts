/** The client for the server that --url, --token and their variables name. */
import { OrchdClient } from '../client/client.ts';
import { isHttpUrl } from '../config/address.ts';
import { textOf, variable } from './arguments.ts';
import { type CliArguments, UsageError } from './command.ts';

const DEFAULT_URL = 'http://127.0.0.1:8080';

export const serverUrl = ({ values }: CliArguments): string =>
  textOf(values, 'url') ?? variable('ORCHD_URL') ?? DEFAULT_URL;

export const connect = (args: CliArguments): OrchdClient => connectTo(serverUrl(args), args);

export function connectTo(url: string, { values }: CliArguments): OrchdClient {
  if (!isHttpUrl(url)) throw new UsageError(`"${url}" is not an address such as ${DEFAULT_URL}.`);
  const token = textOf(values, 'token')?.trim() ?? variable('ORCHD_TOKEN');
  if (token !== undefined && !/^[!-~]+$/.test(token))
    throw new UsageError('the token contains characters that no token has.');
  return new OrchdClient({ url, ...(token !== undefined && { token }) });
}
