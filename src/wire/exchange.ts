/**
 * One request on its way out and its answer on the way in, with everything that can go wrong between. It ends
 * once: read to its end, failed or closed; from then on nothing of it is left running.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { type ErrorCode, OrchdError } from '../model/errors.ts';

/** Why a request failed. After the first two, the other side has certainly not heard it. */
export type OutboundReason =
  | 'unreachable'
  | 'busy'
  | 'connection_lost'
  | 'timeout'
  | 'idle'
  | 'redirect'
  | 'too_large'
  | 'malformed'
  | 'aborted';

const CODES: Record<OutboundReason, ErrorCode> = {
  unreachable: 'WORKER_UNAVAILABLE',
  busy: 'WORKER_UNAVAILABLE',
  connection_lost: 'WORKER_UNAVAILABLE',
  timeout: 'WORKER_TIMEOUT',
  idle: 'WORKER_TIMEOUT',
  redirect: 'WORKER_PROTOCOL',
  too_large: 'WORKER_PROTOCOL',
  malformed: 'WORKER_PROTOCOL',
  aborted: 'CANCELLED',
};

/** Whether it is certain that the other side has not heard the request. */
export function wasNotSent(error: unknown): boolean {
  const reason = error instanceof OrchdError ? error.details.reason : undefined;
  return reason === 'unreachable' || reason === 'busy';
}

/** `to` is a method and an origin: paths, queries, headers and bodies may hold secrets. */
export function outboundError(reason: OutboundReason, to: string, what: string): OrchdError {
  const retriable = reason === 'unreachable' || reason === 'busy';
  return new OrchdError(CODES[reason], `${to}: ${what}`, { reason, ...(retriable && { retriable }) });
}

export interface ExchangeParts {
  /** Finds out where the request goes. */
  readonly ready: () => Promise<void>;
  /** Makes the request; on a new connection where the pooled one proved dead. */
  readonly send: (connection: 'any' | 'new') => ClientRequest;
  readonly body: string | Uint8Array | undefined;
  /** Method and origin, for messages. */
  readonly to: string;
  /** Sending it twice is the same as sending it once. */
  readonly repeatable: boolean;
  readonly timers: Timers;
  readonly connectMs: number;
  /** For the whole answer, or with `idleMs` for its head only. */
  readonly timeoutMs: number;
  /** Between two chunks of a stream. */
  readonly idleMs?: number | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onEnd: (exchange: Exchange) => void;
}

const BYTES_PER_TURN = 64 * 1024;

export class Exchange {
  readonly #parts: ExchangeParts;
  readonly #failed = Promise.withResolvers<never>();
  readonly #head = Promise.withResolvers<IncomingMessage>();
  #failure: OrchdError | undefined;
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  #connected = false;
  #repeated = false;
  #ended = false;
  #stopDeadline: Cancel | undefined;
  #stopConnecting: Cancel | undefined;
  readonly #onAbort = (): void => this.abort();

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    // Whoever waits hears of it; nobody has to.
    this.#failed.promise.catch(() => undefined);
  }

  /** Sends the request and returns the head of the answer. */
  async head(): Promise<IncomingMessage> {
    const { timers, timeoutMs, connectMs, signal, idleMs } = this.#parts;
    if (signal?.aborted) this.abort();
    else {
      signal?.addEventListener('abort', this.#onAbort);
      const late = (): void => this.#fail(this.#connected ? 'timeout' : 'unreachable', 'no answer in time');
      this.#stopDeadline = timers.after(timeoutMs, late);
      const slow = (): void => this.#fail('unreachable', 'no connection in time');
      this.#stopConnecting = timers.after(connectMs, slow);
      void this.#send('any');
    }
    const response = await Promise.race([this.#head.promise, this.#failed.promise]);
    if (idleMs !== undefined) this.#stopDeadline?.();
    return response;
  }

  /** The body as it comes, after the head. Time that the reader takes is not counted as idle. */
  async *chunks(): AsyncGenerator<Buffer> {
    const { timers, idleMs } = this.#parts;
    const idle = (): void => this.#fail('idle', `nothing came for ${idleMs} ms`);
    try {
      const pieces = (await this.#head.promise)[Symbol.asyncIterator]();
      let sincePause = 0;
      for (;;) {
        const stop = idleMs === undefined ? undefined : timers.after(idleMs, idle);
        const piece = await pieces.next().finally(() => stop?.());
        if (piece.done) break;
        yield piece.value as Buffer;
        sincePause += (piece.value as Buffer).length;
        // A sender that floods is read many times in one turn of the loop: those who pass it on get theirs first.
        if (sincePause < BYTES_PER_TURN) continue;
        sincePause = 0;
        await new Promise<void>((resolve) => timers.soon(resolve));
      }
    } catch (error) {
      throw this.#failure ?? this.#broken(error);
    } finally {
      this.close();
    }
  }

  async whole(maxBytes: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of this.chunks()) {
      bytes += piece.length;
      if (bytes > maxBytes) this.#fail('too_large', `the answer is larger than ${maxBytes} bytes`);
      else pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  abort(): void {
    this.#fail('aborted', 'given up before the answer was there');
  }

  /** Lets go of the connection; one whose answer was read to its end goes back to the others. */
  close(): void {
    if (this.#ended) return;
    if (!this.#response?.readableEnded) this.abort();
    this.#end();
  }

  async #send(connection: 'any' | 'new'): Promise<void> {
    let request: ClientRequest;
    try {
      await this.#parts.ready();
      if (this.#ended) return;
      request = this.#parts.send(connection);
    } catch (error) {
      this.#failure ??= error as OrchdError;
      this.#end();
      return;
    }
    this.#request = request;
    request.on('error', (error) => this.#onError(error, request));
    request.on('response', (response) => this.#onResponse(response));
    request.on('socket', (socket) => this.#onSocket(socket));
    request.on('upgrade', () => this.#fail('malformed', 'it changed the protocol'));
    request.end(this.#parts.body);
  }

  #onSocket(socket: Socket): void {
    const connected = (): void => {
      this.#connected = true;
      this.#stopConnecting?.();
    };
    if (!socket.connecting) connected();
    else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', connected);
  }

  #onResponse(response: IncomingMessage): void {
    this.#response = response;
    // Heard again by whoever reads the body.
    response.on('error', () => undefined);
    const status = response.statusCode ?? 0;
    if (this.#ended) response.destroy();
    else if (status >= 300 && status < 400)
      this.#fail('redirect', `it answered ${status}, and redirects are not followed`);
    else this.#head.resolve(response);
  }

  #onError(error: Error, request: ClientRequest): void {
    const { repeatable } = this.#parts;
    // The server has closed an idle connection just as it was taken up.
    if (request.reusedSocket && !this.#response && repeatable && !this.#repeated && !this.#ended) {
      this.#repeated = true;
      void this.#send('new');
      return;
    }
    this.#failure ??= this.#broken(error);
    this.#end();
  }

  #broken(error: unknown): OrchdError {
    const { to } = this.#parts;
    const code = (error as { code?: unknown } | undefined)?.code;
    const named = typeof code === 'string' ? ` (${code})` : '';
    if (!this.#connected) return outboundError('unreachable', to, `no connection${named}`);
    if (named.includes('HPE_')) return outboundError('malformed', to, `the answer is no HTTP${named}`);
    return outboundError('connection_lost', to, `the connection broke before the answer was whole${named}`);
  }

  #fail(reason: OutboundReason, what: string): void {
    this.#failure ??= outboundError(reason, this.#parts.to, what);
    this.#end();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stopDeadline?.();
    this.#stopConnecting?.();
    this.#parts.signal?.removeEventListener('abort', this.#onAbort);
    if (this.#failure) {
      this.#failed.reject(this.#failure);
      this.#response?.destroy(this.#failure);
      this.#request?.destroy();
    }
    this.#parts.onEnd(this);
  }
}
