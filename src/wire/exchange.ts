/**
 * One request on its way out and its answer on the way in, with everything that can go wrong between. It ends
 * once: read to its end, failed or closed; from then on nothing of it is left running.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { type ErrorCode, OrchdError, type Reason } from '../model/errors.ts';

/** Why a request failed. After the first two, the other side has certainly not heard it. */
export type OutboundReason = Extract<
  Reason,
  | 'unreachable'
  | 'busy'
  | 'connection_lost'
  | 'timeout'
  | 'idle'
  | 'redirect'
  | 'too_large'
  | 'malformed'
  | 'aborted'
>;

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
  /** Between two pieces of a stream; it is noticed up to a quarter later. */
  readonly idleMs?: number | undefined;
  /** A redirect is an answer like any other, and the caller's to judge. */
  readonly returnsRedirects?: boolean | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onEnd: (exchange: Exchange) => void;
}

const BYTES_PER_TURN = 64 * 1024;

/** Within the time that a stream may be silent; one more look decides. */
export const IDLE_LOOKS = 4;

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
  readonly #flow: Flow = { held: false, onChange: () => undefined };
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

  /** Hands on the body as it comes, after the head, until its end. */
  async read(on: (piece: Buffer) => void): Promise<void> {
    const { timers, idleMs } = this.#parts;
    const response = await this.#head.promise;
    const watch = idleMs === undefined ? undefined : new IdleWatch(timers, idleMs, () => this.#idle());
    this.#flow.onChange = () => {
      // What is not read for does not count as silence.
      if (this.#flow.held) watch?.pause();
      else watch?.resume();
      if (!this.#flow.held) response.resume();
    };
    try {
      await pieces(response, timers, this.#flow, (piece) => {
        watch?.heard();
        on(piece);
      });
    } catch (error) {
      throw this.#failure ?? (error instanceof Broken ? this.#broken(error.cause) : error);
    } finally {
      watch?.stop();
      this.close();
    }
  }

  /** Reads no more until it is told to go on: the sender has to wait. */
  pause(): void {
    this.#flow.held = true;
    this.#response?.pause();
    this.#flow.onChange();
  }

  resume(): void {
    if (!this.#flow.held) return;
    this.#flow.held = false;
    this.#flow.onChange();
  }

  async whole(maxBytes: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let bytes = 0;
    await this.read((piece) => {
      bytes += piece.length;
      if (bytes > maxBytes) this.#fail('too_large', `the answer is larger than ${maxBytes} bytes`);
      else pieces.push(piece);
    });
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
    else if (status >= 300 && status < 400 && !this.#parts.returnsRedirects)
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

  #idle(): void {
    this.#fail('idle', `nothing came for ${this.#parts.idleMs} ms`);
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

/** The body ended before its end. */
class Broken extends Error {}

/**
 * By listeners, not by iterating: waiting for every piece costs more than a token does. Whoever listens throws to
 * have no more.
 */
function pieces(
  response: IncomingMessage,
  timers: Timers,
  flow: Flow,
  on: (piece: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const broken = (error?: Error): void => {
      // It closes after its end too: an error that nobody would hear is not made, since that costs as much as a token.
      if (!response.readableEnded) reject(new Broken('', { cause: error }));
    };
    if (response.destroyed) return reject(new Broken());
    let sincePause = 0;
    response.on('end', resolve).on('error', broken).on('close', broken);
    response.on('data', (piece: Buffer) => {
      try {
        on(piece);
      } catch (error) {
        reject(error);
        response.destroy();
        return;
      }
      sincePause += piece.length;
      // A sender that floods is read many times in one turn of the loop: those who pass it on get theirs first.
      if (sincePause < BYTES_PER_TURN) return;
      sincePause = 0;
      response.pause();
      timers.soon(() => flow.held || response.resume());
    });
  });
}

/** Whether a reader wants no more for now. */
interface Flow {
  held: boolean;
  onChange: () => void;
}

/** Notices silence by looking now and then: a timer for every piece would cost more than the piece. */
class IdleWatch {
  readonly #timers: Timers;
  readonly #ms: number;
  readonly #onIdle: () => void;
  #quietLooks = 0;
  #stop: Cancel = () => undefined;

  constructor(timers: Timers, ms: number, onIdle: () => void) {
    this.#timers = timers;
    this.#ms = ms;
    this.#onIdle = onIdle;
    this.#wait();
  }

  heard(): void {
    this.#quietLooks = 0;
  }

  stop(): void {
    this.#stop();
  }

  pause(): void {
    this.#stop();
  }

  resume(): void {
    this.#stop();
    this.#quietLooks = 0;
    this.#wait();
  }

  #wait(): void {
    this.#stop = this.#timers.after(this.#ms / IDLE_LOOKS, () => {
      if (++this.#quietLooks > IDLE_LOOKS) this.#onIdle();
      else this.#wait();
    });
  }
}
