/**
 * The path and query that a request is for. A request names its host in one Host header, and may name it in the target
 * too (`GET http://host/path`). A proxy could route by one name and this server check another, so all must be the same.
 */
import type { IncomingMessage } from 'node:http';
import { OrchdError } from '../model/errors.ts';

const ABSOLUTE = /^https?:\/\/([^/?#]*)([\s\S]*)$/i;

export function requestTarget({ url = '', rawHeaders, headers }: IncomingMessage): string {
  if (hostHeaders(rawHeaders) !== 1)
    throw new OrchdError('INVALID_PARAMS', 'a request has exactly one Host header');
  if (url.startsWith('/')) return url;
  const match = ABSOLUTE.exec(url);
  // `*` and anything else matches no route.
  if (!match) return url;
  const [, host = '', path = ''] = match;
  if (host.toLowerCase() !== headers.host?.toLowerCase())
    throw new OrchdError('FORBIDDEN', 'the request target and the Host header name different hosts');
  return path.startsWith('/') ? path : `/${path}`;
}

/** Node keeps the first Host header and drops others. */
function hostHeaders(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count++;
  }
  return count;
}
