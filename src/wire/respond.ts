/** Writes answers and errors to a connection, with the headers that every response carries. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OrchdError } from '../model/errors.ts';
import { CORRELATION_ID } from './headers.ts';
import { errorShapeOf, renderError } from './render-error.ts';
import type { Answer, LargeJson } from './route.ts';

/** One request with its response, from the first byte to the last. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly correlationId: string;
  /** CORS headers that let a page of an allowed origin read the answer; undefined for requests without an Origin. */
  readonly crossOrigin: Readonly<Record<string, string>> | undefined;
}

export const JSON_TYPE = 'application/json; charset=utf-8';

const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const SECURITY_LIST = Object.entries(SECURITY_HEADERS).flat();
const JSON_LIST = [...SECURITY_LIST, 'content-type', JSON_TYPE, CORRELATION_ID];

/** What is sent after the head. */
export type Content = string | Buffer | LargeJson | undefined;

/** Sends an answer that is not large. */
export function sendAnswer(
  answer: Answer,
  content: string | Buffer | undefined,
  exchange: HttpExchange,
): void {
  writeHead(answer, content === undefined ? undefined : contentBytes(content), exchange);
  exchange.response.end(content);
}

/** Writes the head of an answer. `bytes`: the length of its content, undefined if it has none. */
export function writeHead(answer: Answer, bytes: number | undefined, exchange: HttpExchange): void {
  const { response, correlationId, crossOrigin } = exchange;
  if (bytes !== undefined && !answer.headers && !answer.text && !crossOrigin) {
    // Nearly all answers are plain JSON: one flat list of headers saves Node from building a header table.
    response.writeHead(answer.status, [...JSON_LIST, correlationId, 'content-length', String(bytes)]);
    return;
  }
  setCommonHeaders(exchange);
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  if (bytes !== undefined) {
    response.setHeader('content-type', answer.text?.type ?? JSON_TYPE);
    response.setHeader('content-length', bytes);
  }
  response.writeHead(answer.status);
}

export function sendError(error: OrchdError, exchange: HttpExchange, extra: Answer['headers'] = {}): void {
  const shape = errorShapeOf(exchange.request.url ?? '');
  const { status, headers, body } = renderError(error, exchange.correlationId, shape);
  sendAnswer({ status, headers: { ...headers, ...extra } }, JSON.stringify(body), exchange);
}

/** Sets the headers that `sendAnswer` would have sent, on a response whose head is written elsewhere. */
export function setCommonHeaders({ response, correlationId, crossOrigin }: HttpExchange): void {
  for (const [name, value] of Object.entries({ ...SECURITY_HEADERS, ...crossOrigin }))
    response.setHeader(name, value);
  response.setHeader(CORRELATION_ID, correlationId);
}

export const contentOf = ({ text, json, body }: Answer): Content =>
  text?.content ?? json ?? (body === undefined ? undefined : JSON.stringify(body));

export function contentBytes(content: NonNullable<Content>): number {
  if (typeof content === 'string') return Buffer.byteLength(content);
  if (!('pieces' in content)) return content.length;
  return content.pieces.reduce((bytes, piece) => bytes + contentBytes(piece), 0);
}
