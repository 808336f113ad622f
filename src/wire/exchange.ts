/**
 * One request on its way out and its answer on the way in, with everything that can go wrong between. It ends
 * once: read to its end, failed or closed; from then on nothing of it is left running.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { type ErrorCode, OrchdError, type Reason } from '../model/errors.ts';
import { BrokenBody, ResponseBody } from './response-body.ts';

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

/** A request is sent once more where the pooled connection that it was sent on proved dead. */
type Attempt =
  | { readonly is: 'first'; readonly connectDeadline: Cancel }
  /** Its first sending may have been heard: a failure from here on cannot say that it was not. */
  | { readonly is: 'repeat' };

/** `deadline` ends the wait for the whole answer, or with `idleMs` for its head. */
type Phase =
  | { readonly is: 'new' }
  /** Finds out where the request goes. */
  | { readonly is: 'resolving'; readonly deadline: Cancel; readonly attempt: Attempt }
  | {
      readonly is: 'connecting';
      readonly deadline: Cancel;
      readonly attempt: Attempt;
      readonly request: ClientRequest;
    }
  /** Connected; the head of the answer has not come yet. */
  | {
      readonly is: 'waiting';
      readonly deadline: Cancel;
      readonly attempt: Attempt['is'];
      readonly request: ClientRequest;
    }
  | {
      readonly is: 'answering';
      /** Undefined for a stream, whose silence is watched instead while it is read. */
      readonly deadline: Cancel | undefined;
      readonly request: ClientRequest;
      readonly body: ResponseBody;
    }
  /** Without a failure it was read to its end. */
  | { readonly is: 'ended'; readonly failure: OrchdError | undefined };

export class Exchange {
  readonly #parts: ExchangeParts;
  readonly #head = Promise.withResolvers<IncomingMessage>();
  readonly #onAbort = (): void => this.abort();
  #phase: Phase = { is: 'new' };

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    // Whoever waits hears of it; nobody has to.
    this.#head.promise.catch(() => undefined);
  }

  /** Sends the request and returns the head of the answer. */
  head(): Promise<IncomingMessage> {
    const { timers, timeoutMs, connectMs, signal } = this.#parts;
    if (this.#phase.is !== 'new') return this.#head.promise;
    if (signal?.aborted) this.abort();
    else {
      signal?.addEventListener('abort', this.#onAbort);
      const late = (): void =>
        this.#fail(this.#mayBeHeard() ? 'timeout' : 'unreachable', 'no answer in time');
      const slow = (): void => this.#fail('unreachable', 'no connection in time');
      const deadline = timers.after(timeoutMs, late);
      void this.#send(deadline, { is: 'first', connectDeadline: timers.after(connectMs, slow) });
    }
    return this.#head.promise;
  }

  /** Hands on the body as it comes, after the head, until its end. */
  async read(on: (piece: Buffer) => void): Promise<void> {
    const { idleMs } = this.#parts;
    const phase = this.#phase;
    if (phase.is !== 'answering') throw this.#failure() ?? this.#broken(undefined);
    try {
      await phase.body.read(
        on,
        idleMs === undefined ? undefined : { ms: idleMs, onIdle: () => this.#idle() },
      );
    } catch (error) {
      throw this.#failure() ?? (error instanceof BrokenBody ? this.#broken(error.cause) : error);
    } finally {
      this.close();
    }
  }

  /** Reads no more until it is told to go on: the sender has to wait. */
  pause(): void {
    if (this.#phase.is === 'answering') this.#phase.body.pause();
  }

  resume(): void {
    if (this.#phase.is === 'answering') this.#phase.body.resume();
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
    request.on('upgrade', () => this.#fail('malformed', 'it changed the protocol'));
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
    // The server has closed an idle connection just as it was taken up.
    const isFirst = phase.is === 'waiting' && phase.attempt === 'first';
    if (isFirst && request.reusedSocket && this.#parts.repeatable)
      void this.#send(phase.deadline, { is: 'repeat' });
    else this.#end(this.#broken(error));
  }

  /** Whether the other side can have heard the request. */
  #mayBeHeard(): boolean {
    const phase = this.#phase;
    if (phase.is === 'resolving' || phase.is === 'connecting') return phase.attempt.is === 'repeat';
    return phase.is !== 'new';
  }

  #broken(error: unknown): OrchdError {
    const { to } = this.#parts;
    const code = (error as { code?: unknown } | undefined)?.code;
    const named = typeof code === 'string' ? ` (${code})` : '';
    if (!this.#mayBeHeard()) return outboundError('unreachable', to, `no connection${named}`);
    if (named.includes('HPE_')) return outboundError('malformed', to, `the answer is no HTTP${named}`);
    return outboundError('connection_lost', to, `the connection broke before the answer was whole${named}`);
  }

  #failure(): OrchdError | undefined {
    return this.#phase.is === 'ended' ? this.#phase.failure : undefined;
  }

  #idle(): void {
    this.#fail('idle', `nothing came for ${this.#parts.idleMs} ms`);
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
