/**
 * A backend as the brain talks to it: whatever it does, a call ends. One that throws instead of answering, or
 * gives no answer for too long, counts as not answered; following has no bound, since work takes its time. A brain
 * that may have been replaced asks nothing of anybody.
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

/** How often a brain that may have been replaced looks whether it leads again. */
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
        // The lead may be back in a moment, or over.
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
    // What throws at once is no answer either.
    Promise.try(call).then(resolve, reject).finally(cancel);
  }
}
