/**
 * Wraps a backend so that each call ends: a backend that throws, or does not answer within the timeout, counts as not
 * having answered. Only `follow` has no timeout, because jobs may run for long. While this brain may have been
 * replaced, calls wait; they fail with FENCED if it does not lead again in time.
 */
import type {
  Backend,
  ExecutionEvent,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
} from '../core/ports/backend.ts';
import type { Timers } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import type { Commander } from '../model/worker-wire.ts';

/** How often a waiting call checks whether this brain leads again. */
const LEAD_POLL_MS = 50;

export class GuardedBackend implements Backend {
  readonly #backend: Backend;
  readonly #timers: Timers;
  readonly #timeoutMs: number;
  readonly #mayAct: () => boolean;

  constructor(backend: Backend, timers: Timers, timeoutMs: number, mayAct: () => boolean) {
    this.#backend = backend;
    this.#timers = timers;
    this.#timeoutMs = timeoutMs;
    this.#mayAct = mayAct;
  }

  get info(): Backend['info'] {
    return this.#backend.info;
  }

  offer(offer: Offer): Promise<OfferReply> {
    return this.#callWithTimeout(() => this.#backend.offer(offer));
  }

  inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    return this.#callWithTimeout(() => this.#backend.inspect(tokens, who));
  }

  kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    return this.#callWithTimeout(() => this.#backend.kill(token, who, how));
  }

  ack(token: string, who: Commander): Promise<void> {
    return this.#callWithTimeout(() => this.#backend.ack(token, who));
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    return this.#backend.follow(token, from, on, who, signal);
  }

  async start(): Promise<void> {
    await this.#backend.start?.();
  }

  async stop(): Promise<void> {
    await this.#backend.stop?.();
  }

  #callWithTimeout<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const begin = (waitedMs: number): void => {
        if (this.#mayAct()) return this.#call(call, resolve, reject);
        // The lead may return in a moment, or be lost for good.
        if (waitedMs >= this.#timeoutMs) reject(new OrchdError('FENCED'));
        else this.#timers.after(LEAD_POLL_MS, () => begin(waitedMs + LEAD_POLL_MS));
      };
      begin(0);
    });
  }

  #call<T>(call: () => Promise<T>, resolve: (value: T) => void, reject: (error: unknown) => void): void {
    const cancel = this.#timers.after(this.#timeoutMs, () =>
      reject(new OrchdError('WORKER_TIMEOUT', 'the backend did not answer in time')),
    );
    // Promise.try also turns a synchronous throw into a rejection.
    Promise.try(call).then(resolve, reject).finally(cancel);
  }
}
