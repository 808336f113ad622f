/** SIGINT (Ctrl-C) and SIGTERM: the first signal stops the command in order, a second one ends the process at once. */

/** The exit code that a shell reports for a process ended by SIGINT. */
export const EXIT_INTERRUPTED = 130;

/** npm forwards the signal that the terminal has already sent to this process: within this time both count as one. */
const DUPLICATE_MS = 300;

export class Interrupt {
  readonly #controller = new AbortController();
  #firstAt = 0;

  constructor() {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves at the first signal. */
  get received(): Promise<void> {
    return new Promise((resolve) => {
      if (this.signal.aborted) resolve();
      else this.signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  /** Removes the handlers: from now on signals have their default effect. */
  remove(): void {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, this.#onSignal);
  }

  readonly #onSignal = (): void => {
    if (!this.signal.aborted) {
      this.#firstAt = performance.now();
      this.#controller.abort();
    } else if (performance.now() - this.#firstAt > DUPLICATE_MS) {
      process.exit(EXIT_INTERRUPTED);
    }
  };
}
