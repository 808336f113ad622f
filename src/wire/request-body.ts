/** Reads the body of a request: uncompressed JSON of limited size. */
import type { IncomingMessage } from 'node:http';
import type { Timers } from '../kit/env/env.ts';
import { ONE_TURN_BYTES } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';
import { BodyPieces } from './body-pieces.ts';
import type { BodyRoom } from './body-room.ts';
import { parseJsonBody, parseLargeBody, type RequestBody } from './json-body.ts';

/** The content type that `curl -d` sends by default; the examples of OpenAI rely on it. */
const CURL_TYPE = 'application/x-www-form-urlencoded';

/** Thrown when the caller disconnects before its body has arrived: there is nobody to answer. */
export class CallerDisconnected extends Error {}

export interface BodyOptions {
  readonly maxBytes: number;
  /** Accepts CURL_TYPE as JSON. */
  readonly takesCurlType: boolean;
  readonly room: BodyRoom;
  readonly timers: Timers;
}

const NO_BODY: RequestBody = { value: undefined, size: 'small' };

export function readBody(request: IncomingMessage, options: BodyOptions): Promise<RequestBody> {
  const { headers } = request;
  if (hasNoBody(headers)) return Promise.resolve(NO_BODY);
  checkType(headers['content-type'], options.takesCurlType);
  if (Number(headers['content-length'] ?? 0) > options.maxBytes) throw new OrchdError('TOO_LARGE');
  const share = options.room.enter();
  return new Promise<RequestBody>((resolve, reject) => {
    const pieces = new BodyPieces();
    let bytes = 0;
    let isRefused = false;
    const refuse = (error: unknown): void => {
      // Pieces that arrive after this are dropped.
      isRefused = true;
      pieces.clear();
      share.release();
      reject(error);
    };
    request.on('data', (piece: Buffer) => {
      if (isRefused) return;
      bytes += piece.length;
      try {
        if (bytes > options.maxBytes) throw new OrchdError('TOO_LARGE');
        share.grow(piece.length);
        pieces.add(piece);
      } catch (error) {
        refuse(error);
      }
    });
    request.on('end', () => {
      if (isRefused) return;
      try {
        checkEncoding(bytes === 0 ? undefined : headers['content-encoding']);
        if (bytes > ONE_TURN_BYTES) {
          const received = pieces.take();
          pieces.clear();
          options.room
            .parseAlone(() => parseLargeBody(received, options.timers))
            .finally(() => share.release())
            .then(resolve, reject);
          return;
        }
        const value = bytes === 0 ? undefined : parseJsonBody(joined(pieces.take()));
        share.release();
        resolve({ value, size: 'small' });
      } catch (error) {
        refuse(error);
      }
    });
    request.on('error', () => {
      if (!isRefused) refuse(new CallerDisconnected());
    });
  });
}

const joined = (pieces: readonly Buffer[]): Buffer =>
  pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);

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

/** Refuses compressed bodies: a few bytes could decompress to more than any limit allows. */
export function checkEncoding(encoding: string | undefined): void {
  if (encoding === undefined || /^(?:identity)?$/i.test(encoding.trim())) return;
  const message = 'the body has a Content-Encoding: send it uncompressed, without one';
  throw new OrchdError('UNSUPPORTED_MEDIA_TYPE', message);
}
