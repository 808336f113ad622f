/** Ctrl-C and SIGTERM: the first asks to stop in order, the second ends the process at once. */

/** What a shell reports of a process that SIGINT ended. */
export const EXIT_INTERRUPTED = 130;

/** npm hands on the signal that the terminal has sent to us already: that is one wish, not two. */
const SAME_WISH_MS = 300;

export class Interrupt {
  readonly #controller = new AbortController();
  #firstAt = 0;

  constructor() {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, this.#hear);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Settles with the first signal. */
  get asked(): Promise<void> {
    return new Promise((resolve) => {
      if (this.signal.aborted) resolve();
      else this.signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  /** From here on signals do what they do by default. */
  forget(): void {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, this.#hear);
  }

  readonly #hear = (): void => {
    if (!this.signal.aborted) {
      this.#firstAt = performance.now();
      this.#controller.abort();
    } else if (performance.now() - this.#firstAt > SAME_WISH_MS) {
      process.exit(EXIT_INTERRUPTED);
    }
  };
}
