/**
 * The requests in progress whose callers were accepted by a token, so that they can be ended when the token is revoked.
 * Most requests end by themselves within moments; streams and answers that wait for a job may last for hours.
 */
import { OrchdError } from '../model/errors.ts';
import { errorShapeOf, renderError } from './render-error.ts';
import { type HttpExchange, sendError } from './respond.ts';
import { formatEvent } from './sse.ts';
import { type Identity, isRevoked, type TokenEntry } from './tokens.ts';

/** A client that does not read the last event of its stream is disconnected after this time. */
const LINGER_MS = 2000;

export class TokenExchanges {
  readonly #open = new Map<HttpExchange, Identity>();

  /** A request that another node forwarded is ended by that node, which has accepted its token. */
  add(exchange: HttpExchange, identity: Identity): void {
    if (identity.tokenId !== undefined && !identity.fromNode) this.#open.set(exchange, identity);
  }

  remove(exchange: HttpExchange): void {
    this.#open.delete(exchange);
  }

  /** Ends the requests whose tokens are not among `tokens` any more. Whatever their handlers answer later is not sent. */
  endRevoked(tokens: readonly TokenEntry[]): void {
    for (const [exchange, identity] of this.#open) {
      if (!isRevoked(identity, tokens)) continue;
      this.#open.delete(exchange);
      endExchange(exchange);
    }
  }
}

function endExchange(exchange: HttpExchange): void {
  const { request, response } = exchange;
  const error = new OrchdError('UNAUTHORIZED', 'the token was revoked', { reason: 'token_revoked' });
  // The handler may write once more before it notices.
  response.on('error', () => undefined);
  if (!response.headersSent) sendError(error, exchange);
  else if (isEventStream(exchange)) response.end(lastEvent(error, exchange));
  else response.destroy();
  request.socket.setTimeout(LINGER_MS);
}

const isEventStream = ({ response }: HttpExchange): boolean =>
  String(response.getHeader('content-type') ?? '').startsWith('text/event-stream');

/** Streams are written in whole events, so another event may follow at any time. */
function lastEvent(error: OrchdError, { request, correlationId }: HttpExchange): string {
  const shape = errorShapeOf(request.url ?? '');
  const { body } = renderError(error, correlationId, shape);
  if (shape === 'openai') return `data: ${JSON.stringify(body)}\n\n`;
  return formatEvent({ event: 'error', data: JSON.stringify(body.error) });
}
