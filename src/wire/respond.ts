/** Writes answers and errors to a connection, with the headers that every response carries. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OrchdError } from '../model/errors.ts';
import { CORRELATION_ID } from './headers.ts';
import { errorShapeOf, renderError } from './render-error.ts';
import type { Answer } from './route.ts';

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

export function sendAnswer(answer: Answer, exchange: HttpExchange): void {
  const { response, correlationId, crossOrigin } = exchange;
  const content = contentOf(answer);
  if (content !== undefined && !answer.headers && !answer.text && !crossOrigin) {
    // Nearly all answers are plain JSON: one flat list of headers saves Node from building a header table.
    const length = String(Buffer.byteLength(content));
    response.writeHead(answer.status, [...JSON_LIST, correlationId, 'content-length', length]);
    response.end(content);
    return;
  }
  setCommonHeaders(exchange);
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  if (content === undefined) {
    response.writeHead(answer.status).end();
    return;
  }
  response.setHeader('content-type', answer.text?.type ?? JSON_TYPE);
  response.setHeader('content-length', Buffer.byteLength(content));
  response.writeHead(answer.status).end(content);
}

export function sendError(error: OrchdError, exchange: HttpExchange, extra: Answer['headers'] = {}): void {
  const shape = errorShapeOf(exchange.request.url ?? '');
  const { status, headers, body } = renderError(error, exchange.correlationId, shape);
  sendAnswer({ status, headers: { ...headers, ...extra }, body }, exchange);
}

/** Sets the headers that `sendAnswer` would have sent, on a response whose head is written elsewhere. */
export function setCommonHeaders({ response, correlationId, crossOrigin }: HttpExchange): void {
  for (const [name, value] of Object.entries({ ...SECURITY_HEADERS, ...crossOrigin }))
    response.setHeader(name, value);
  response.setHeader(CORRELATION_ID, correlationId);
}

function contentOf({ text, json, body }: Answer): string | undefined {
  return text?.content ?? json ?? (body === undefined ? undefined : JSON.stringify(body));
}
