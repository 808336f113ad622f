/**
 * One outbound HTTP request and its answer, with timeouts, one retry on a dead pooled connection, and aborts. An
 * exchange ends exactly once: read to its end, failed or closed. Afterwards none of its timers, listeners or requests
 * is left.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { type ErrorCode, OrchdError } from '../model/errors.ts';
import type { Reason } from '../model/reasons.ts';
import { BrokenBody, ResponseBody } from './response-body.ts';

/** Why a request failed. With `unreachable` and `busy` the other side has certainly not received it. */
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

/** Whether the other side has certainly not received the request, so that sending it elsewhere is safe. */
export function wasNotSent(error: unknown): boolean {
  const reason = error instanceof OrchdError ? error.details.reason : undefined;
  return reason === 'unreachable' || reason === 'busy';
}

/** Whether the request was not sent because all connections to the other side are in use. */
export const wasBusy = (error: unknown): boolean =>
  error instanceof OrchdError && error.details.reason === 'busy';

/** `to` is the method and origin only: paths, queries, headers and bodies may contain secrets. */
export function outboundError(reason: OutboundReason, to: string, what: string): OrchdError {
  const retriable = reason === 'unreachable' || reason === 'busy';
  return new OrchdError(CODES[reason], `${to}: ${what}`, { reason, ...(retriable && { retriable }) });
}

export interface ExchangeParts {
  /** Resolves the host name of the target. */
  readonly ready: () => Promise<void>;
  /**
   * Sends the request: on a pooled connection if there is one (`any`), or on a `new` one after the pooled one proved
   * dead.
   */
  readonly send: (connection: 'any' | 'new') => ClientRequest;
  readonly body: string | Uint8Array | undefined;
  /** Method and origin, for error messages. */
  readonly to: string;
  /** Sending the request twice has the same effect as sending it once. */
  readonly repeatable: boolean;
  readonly timers: Timers;
  readonly connectMs: number;
  /** Timeout for the whole answer, or with `idleMs` for its head only. */
  readonly timeoutMs: number;
  /** How long a stream may be silent; silence is noticed up to a quarter of this later. */
  readonly idleMs?: number | undefined;
  /** Returns a redirect to the caller like any other answer, instead of failing. */
  readonly returnsRedirects?: boolean | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onEnd: (exchange: Exchange) => void;
}

/** A request is sent a second time if the pooled connection of the first attempt proved dead. */
type Attempt =
  | { readonly is: 'first'; readonly connectDeadline: Cancel }
  /** The first attempt may have reached the server, so a later failure must not claim that nothing was sent. */
  | { readonly is: 'repeat' };

/** `deadline` limits the wait for the whole answer, or with `idleMs` for its head. */
type Phase =
  | { readonly is: 'new' }
  /** Waits for `ready`, which resolves the host name. */
  | { readonly is: 'resolving'; readonly deadline: Cancel; readonly attempt: Attempt }
  | {
      readonly is: 'connecting';
      readonly deadline: Cancel;
      readonly attempt: Attempt;
      readonly request: ClientRequest;
    }
  /** Connected; the head of the answer has not arrived yet. */
  | {
      readonly is: 'waiting';
      readonly deadline: Cancel;
      readonly attempt: Attempt['is'];
      readonly request: ClientRequest;
    }
  | {
      readonly is: 'answering';
      /** Undefined for a stream: its silence is watched while it is read. */
      readonly deadline: Cancel | undefined;
      readonly request: ClientRequest;
      readonly body: ResponseBody;
    }
  /** `failure` is undefined if the answer was read to its end. */
  | { readonly is: 'ended'; readonly failure: OrchdError | undefined };

export class Exchange {
  readonly #parts: ExchangeParts;
  readonly #head = Promise.withResolvers<IncomingMessage>();
  readonly #onAbort = (): void => this.abort();
  #phase: Phase = { is: 'new' };

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    // Callers of `head` get the rejection; without a caller it must not count as unhandled.
    this.#head.promise.catch(() => undefined);
  }

  /** Sends the request and resolves to the head of the answer. */
  head(): Promise<IncomingMessage> {
    const { timers, timeoutMs, connectMs, signal } = this.#parts;
    if (this.#phase.is !== 'new') return this.#head.promise;
    if (signal?.aborted) this.abort();
    else {
      signal?.addEventListener('abort', this.#onAbort);
      const late = (): void =>
        this.#fail(this.#mayHaveArrived() ? 'timeout' : 'unreachable', 'no answer in time');
      const slow = (): void => this.#fail('unreachable', 'no connection in time');
      const deadline = timers.after(timeoutMs, late);
      void this.#send(deadline, { is: 'first', connectDeadline: timers.after(connectMs, slow) });
    }
    return this.#head.promise;
  }

  /** Passes the pieces of the body to `on` as they arrive, until the end. Call it after `head`. */
  async read(on: (piece: Buffer) => void): Promise<void> {
    const { idleMs } = this.#parts;
    const phase = this.#phase;
    if (phase.is !== 'answering') throw this.#failure() ?? this.#connectionError(undefined);
    try {
      await phase.body.read(
        on,
        idleMs === undefined ? undefined : { ms: idleMs, onIdle: () => this.#idle() },
      );
    } catch (error) {
      throw this.#failure() ?? (error instanceof BrokenBody ? this.#connectionError(error.cause) : error);
    } finally {
      this.close();
    }
  }

  /** Stops reading until `resume`; TCP flow control makes the sender wait. */
  pause(): void {
    if (this.#phase.is === 'answering') this.#phase.body.pause();
  }

  resume(): void {
    if (this.#phase.is === 'answering') this.#phase.body.resume();
  }

  async readAll(maxBytes: number): Promise<Buffer> {
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
    this.#fail('aborted', 'aborted before the answer was complete');
  }

  /** Releases the connection: to the pool if the answer was read to its end, otherwise it is closed. */
  close(): void {
    if (this.#phase.is === 'answering' && this.#phase.body.isWhole) this.#end(undefined);
    else this.abort();
  }

  async #send(deadline: Cancel, attempt: Attempt): Promise<void> {
    const resolving: Phase = { is: 'resolving', deadline, attempt };
    this.#phase = resolving;
    let request: ClientRequest;
    try {
      await this.#parts.ready();
      if (this.#phase !== resolving) return;
      request = this.#parts.send(attempt.is === 'first' ? 'any' : 'new');
    } catch (error) {
      this.#end(error as OrchdError);
      return;
    }
    this.#phase = { is: 'connecting', deadline, attempt, request };
    request.on('error', (error) => this.#onError(error, request));
    request.on('response', (response) => this.#onResponse(response, request));
    request.on('socket', (socket) => this.#onSocket(socket, request));
    request.on('upgrade', () => this.#fail('malformed', 'the server switched protocols'));
    request.end(this.#parts.body);
  }

  #onSocket(socket: Socket, request: ClientRequest): void {
    const connected = (): void => {
      const phase = this.#phase;
      if (phase.is !== 'connecting' || phase.request !== request) return;
      stopConnecting(phase.attempt);
      this.#phase = { is: 'waiting', deadline: phase.deadline, attempt: phase.attempt.is, request };
    };
    if (!socket.connecting) connected();
    else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', connected);
  }

  #onResponse(response: IncomingMessage, request: ClientRequest): void {
    const { timers, idleMs, returnsRedirects } = this.#parts;
    const phase = this.#phase;
    const body = new ResponseBody(response, timers);
    if ((phase.is !== 'connecting' && phase.is !== 'waiting') || phase.request !== request) {
      response.destroy();
      return;
    }
    if (phase.is === 'connecting') stopConnecting(phase.attempt);
    if (idleMs !== undefined) phase.deadline();
    const deadline = idleMs === undefined ? phase.deadline : undefined;
    this.#phase = { is: 'answering', deadline, request, body };
    const status = response.statusCode ?? 0;
    if (status >= 300 && status < 400 && !returnsRedirects)
      this.#fail('redirect', `it answered ${status}, and redirects are not followed`);
    else this.#head.resolve(response);
  }

  #onError(error: Error, request: ClientRequest): void {
    const phase = this.#phase;
    if (!('request' in phase) || phase.request !== request) return;
    // The server closed an idle pooled connection just as this request was sent on it.
    const isFirst = phase.is === 'waiting' && phase.attempt === 'first';
    if (isFirst && request.reusedSocket && this.#parts.repeatable)
      void this.#send(phase.deadline, { is: 'repeat' });
    else this.#end(this.#connectionError(error));
  }

  /** Whether the other side may have received the request. */
  #mayHaveArrived(): boolean {
    const phase = this.#phase;
    if (phase.is === 'resolving' || phase.is === 'connecting') return phase.attempt.is === 'repeat';
    return phase.is !== 'new';
  }

  #connectionError(error: unknown): OrchdError {
    const { to } = this.#parts;
    const code = (error as { code?: unknown } | undefined)?.code;
    const named = typeof code === 'string' ? ` (${code})` : '';
    if (!this.#mayHaveArrived()) return outboundError('unreachable', to, `no connection${named}`);
    if (named.includes('HPE_')) return outboundError('malformed', to, `the answer is not valid HTTP${named}`);
    return outboundError(
      'connection_lost',
      to,
      `the connection broke before the answer was complete${named}`,
    );
  }

  #failure(): OrchdError | undefined {
    return this.#phase.is === 'ended' ? this.#phase.failure : undefined;
  }

  #idle(): void {
    this.#fail('idle', `no data for ${this.#parts.idleMs} ms`);
  }

  #fail(reason: OutboundReason, what: string): void {
    if (this.#phase.is !== 'ended') this.#end(outboundError(reason, this.#parts.to, what));
  }

  #end(failure: OrchdError | undefined): void {
    const phase = this.#phase;
    if (phase.is === 'ended') return;
    this.#phase = { is: 'ended', failure };
    this.#parts.signal?.removeEventListener('abort', this.#onAbort);
    if (phase.is !== 'new') phase.deadline?.();
    if (phase.is === 'resolving' || phase.is === 'connecting') stopConnecting(phase.attempt);
    if (failure) {
      this.#head.reject(failure);
      if (phase.is === 'answering') phase.body.destroy(failure);
      if ('request' in phase) phase.request.destroy();
    }
    this.#parts.onEnd(this);
  }
}

function stopConnecting(attempt: Attempt): void {
  if (attempt.is === 'first') attempt.connectDeadline();
}
