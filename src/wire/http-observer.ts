/** Notifies an observer of the requests of a server, for metrics. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../kit/env/env.ts';
import { type ErrorCode, OrchdError } from '../model/errors.ts';
import type { Route } from './route.ts';

/** A request that is over. */
export interface AnsweredRequest {
  /** Undefined where the path or the method has none. */
  readonly route: Route | undefined;
  readonly method: string;
  /** Undefined where the caller left before the answer began. */
  readonly status: number | undefined;
  readonly isStream: boolean;
  readonly tookMs: number;
}

export interface HttpObserver {
  answered(request: AnsweredRequest): void;
  /** A body was refused before a handler has seen it: it is too large, no JSON, or there is no room for it. */
  bodyRefused(code: ErrorCode): void;
}

export interface Observed {
  readonly by: HttpObserver;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** One request, from its head until its response is closed. */
export class ObservedRequest {
  readonly #observed: Observed | undefined;
  readonly #since: number;
  route: Route | undefined;
  isStream = false;

  constructor(observed: Observed | undefined) {
    this.#observed = observed;
    this.#since = observed?.clock.monotonic() ?? 0;
  }

  /** Resolves to what `read` does; a refusal is reported. A caller that leaves while it sends has not been refused. */
  async body<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (error instanceof OrchdError) this.#observed?.by.bodyRefused(error.code);
      throw error;
    }
  }

  closed({ method = '' }: IncomingMessage, { headersSent, statusCode }: ServerResponse): void {
    if (!this.#observed) return;
    const { by, clock } = this.#observed;
    const { route, isStream } = this;
    const status = headersSent ? statusCode : undefined;
    by.answered({ route, method, status, isStream, tookMs: clock.monotonic() - this.#since });
  }
}
