/** Reads the body of a request: uncompressed JSON of limited size. */
import type { IncomingMessage } from 'node:http';
import { OrchdError } from '../model/errors.ts';
import { parseJsonBody } from './json-body.ts';

/** The content type that `curl -d` sends by default; the examples of OpenAI rely on it. */
const CURL_TYPE = 'application/x-www-form-urlencoded';

/** Thrown when the caller disconnects before its body has arrived: there is nobody to answer. */
export class CallerDisconnected extends Error {}

/** Resolves to the parsed body, or undefined if there is none. `takesCurlType` accepts CURL_TYPE as JSON. */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  takesCurlType: boolean,
): Promise<unknown> {
  const { headers } = request;
  if (hasNoBody(headers)) return Promise.resolve(undefined);
  checkType(headers['content-type'], takesCurlType);
  return new Promise((resolve, reject) => {
    if (Number(headers['content-length'] ?? 0) > maxBytes) throw new OrchdError('TOO_LARGE');
    const pieces: Buffer[] = [];
    let bytes = 0;
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
      if (bytes > maxBytes) reject(new OrchdError('TOO_LARGE'));
      else pieces.push(piece);
    });
    request.on('end', () => {
      try {
        resolve(bytes > maxBytes ? undefined : parsedBody(pieces, headers['content-encoding']));
      } catch (error) {
        reject(error);
      }
    });
    request.on('error', () => reject(new CallerDisconnected()));
  });
}

function hasNoBody(headers: IncomingMessage['headers']): boolean {
  const length = headers['content-length'];
  return (
    headers['content-type'] === undefined &&
    headers['transfer-encoding'] === undefined &&
    (length === undefined || length === '0')
  );
}

function checkType(given: string | undefined, takesCurlType: boolean): void {
  const type = given?.split(';', 1)[0]?.trim().toLowerCase();
  // A page of another origin can send CURL_TYPE without a preflight request, but the gate has already refused its
  // Origin.
  if (type === 'application/json' || (takesCurlType && type === CURL_TYPE)) return;
  throw new OrchdError('UNSUPPORTED_MEDIA_TYPE');
}

function parsedBody(pieces: readonly Buffer[], encoding: string | undefined): unknown {
  const [first] = pieces;
  if (!first) return undefined;
  checkEncoding(encoding);
  return parseJsonBody(pieces.length === 1 ? first : Buffer.concat(pieces));
}

/** Refuses compressed bodies: a few bytes could decompress to more than any limit allows. */
function checkEncoding(encoding: string | undefined): void {
  if (encoding === undefined || /^(?:identity)?$/i.test(encoding.trim())) return;
  const message = 'the body has a Content-Encoding: send it uncompressed, without one';
  throw new OrchdError('UNSUPPORTED_MEDIA_TYPE', message);
}
