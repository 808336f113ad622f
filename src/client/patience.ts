/** How long a call that can be resumed keeps trying while the brain cannot be reached. */
import { OrchdError } from '../model/errors.ts';
import { ClientError } from './client-error.ts';

export interface PatienceOptions {
  readonly signal?: AbortSignal | undefined;
  /** How long to keep trying while the brain cannot be reached; a minute by default. */
  readonly patienceMs?: number | undefined;
  readonly onReconnect?: ((error: Error) => void) | undefined;
}

export const RETRY_DELAY_MS = 250;
export const DEFAULT_PATIENCE_MS = 60_000;

export class Patience {
  readonly #options: PatienceOptions;
  #failingSince: number | undefined;

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** Something has arrived: the next failure is the first again. */
  succeeded(): void {
    this.#failingSince = undefined;
  }

  /** Waits before another try; throws the error if there is no point in one. Resolves at once when aborted. */
  async failed(thrown: unknown): Promise<void> {
    const { signal, patienceMs = DEFAULT_PATIENCE_MS, onReconnect } = this.#options;
    if (signal?.aborted) return;
    // A refused request would be refused again.
    if (!isRetriable(thrown)) throw thrown;
    this.#failingSince ??= Date.now();
    if (Date.now() - this.#failingSince > patienceMs) throw thrown;
    onReconnect?.(thrown as Error);
    await pause(RETRY_DELAY_MS, signal);
  }
}

const isRetriable = (thrown: unknown): boolean =>
  !(thrown instanceof ClientError || thrown instanceof OrchdError) || thrown.retriable;

/** Resolves after this time, or when the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}
