/**
 * Logs requests that were refused for want of a right (401, 403), or by a route with `logsRefusals`, so that an operator
 * sees who tries. Somebody who tries many tokens must not fill the log: beyond LINES_PER_WINDOW lines the requests are only
 * counted.
 */
import type { Cancel, Timers } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { OrchdError } from '../model/errors.ts';

const WINDOW_MS = 10_000;
const LINES_PER_WINDOW = 10;

export interface RefusedRequest {
  /** Method and pattern of the route: a path may contain an id, and a foreign one anything. */
  readonly route: string;
  readonly address: string | undefined;
  readonly correlationId: string;
}

export const isRefusal = ({ code }: OrchdError): boolean => code === 'UNAUTHORIZED' || code === 'FORBIDDEN';

export class RefusalLog {
  readonly #logger: Logger;
  readonly #timers: Timers;
  #lines = 0;
  #left = 0;
  #endWindow: Cancel | undefined;

  constructor(logger: Logger, timers: Timers) {
    this.#logger = logger;
    this.#timers = timers;
  }

  note(error: OrchdError, { route, address, correlationId }: RefusedRequest): void {
    this.#endWindow ??= this.#timers.after(WINDOW_MS, () => this.#next());
    if (this.#lines === LINES_PER_WINDOW) {
      this.#left++;
      return;
    }
    this.#lines++;
    this.#logger.warn('a request was refused', {
      error_code: error.code,
      // Other errors may quote an id of the request.
      ...(isRefusal(error) && { reason: error.message }),
      route,
      address,
      correlation_id: correlationId,
    });
  }

  stop(): void {
    this.#endWindow?.();
    this.#next();
  }

  #next(): void {
    this.#endWindow = undefined;
    this.#lines = 0;
    if (this.#left > 0) this.#logger.warn('more requests were refused', { count: this.#left });
    this.#left = 0;
  }
}
