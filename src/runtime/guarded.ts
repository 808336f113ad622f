/**
 * Wraps a backend so that every call ends: a call that throws, or gets no answer within `patienceMs`, is rejected. While
 * this brain may have been replaced, an offer, inspection, kill, acknowledgement or erasure is held back, and rejected with FENCED
 * after `patienceMs`. `follow` has neither limit: a job may run for any time, and reading its events changes nothing.
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

/** How often a brain that may have been replaced checks whether it leads again. */
const LEAD_POLL_MS = 50;

export class GuardedBackend implements Backend {
  readonly #backend: Backend;
  readonly #timers: Timers;
  readonly #patienceMs: number;
  readonly #mayAct: () => boolean;

  constructor(backend: Backend, timers: Timers, patienceMs: number, mayAct: () => boolean) {
    this.#backend = backend;
    this.#timers = timers;
    this.#patienceMs = patienceMs;
    this.#mayAct = mayAct;
  }

  get info(): Backend['info'] {
    return this.#backend.info;
  }

  offer(offer: Offer): Promise<OfferReply> {
    return this.#inTime(() => this.#backend.offer(offer));
  }

  inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    return this.#inTime(() => this.#backend.inspect(tokens, who));
  }

  kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    return this.#inTime(() => this.#backend.kill(token, who, how));
  }

  ack(token: string, who: Commander): Promise<void> {
    return this.#inTime(() => this.#backend.ack(token, who));
  }

  erase(token: string, who: Commander): Promise<void> {
    const backend = this.#backend;
    return this.#inTime(() => (backend.erase ? backend.erase(token, who) : backend.ack(token, who)));
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

  #inTime<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const begin = (waitedMs: number): void => {
        if (this.#mayAct()) return this.#call(call, resolve, reject);
        // The lead may be confirmed again in a moment, or lost for good.
        if (waitedMs >= this.#patienceMs) reject(new OrchdError('FENCED'));
        else this.#timers.after(LEAD_POLL_MS, () => begin(waitedMs + LEAD_POLL_MS));
      };
      begin(0);
    });
  }

  #call<T>(call: () => Promise<T>, resolve: (value: T) => void, reject: (error: unknown) => void): void {
    const cancel = this.#timers.after(this.#patienceMs, () =>
      reject(new OrchdError('WORKER_TIMEOUT', 'the backend gave no answer')),
    );
    // Promise.try: a backend that throws synchronously is rejected as well.
    Promise.try(call).then(resolve, reject).finally(cancel);
  }
}
