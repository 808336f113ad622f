/**
 * SIGHUP: the configuration is read again. One that comes while the server starts is obeyed when it is up, and one that
 * comes while it stops changes nothing. A terminal that was closed sends the same signal: then the server is stopped, as
 * nobody could see it or stop it from there any more.
 */
import { isatty } from 'node:tty';

const STDIN = 0;

export class Hangup {
  readonly #hadTerminal = isatty(STDIN);
  readonly #closed = Promise.withResolvers<void>();
  #reload: (() => void) | undefined;
  #isWaiting = false;

  constructor() {
    process.on('SIGHUP', this.#onSignal);
  }

  /** Resolves when the terminal is gone. */
  get terminalClosed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Calls `reload` for each signal from now on, and for one that came before. */
  obey(reload: () => void): void {
    this.#reload = reload;
    if (this.#isWaiting) reload();
    this.#isWaiting = false;
  }

  ignore(): void {
    this.#reload = () => undefined;
  }

  readonly #onSignal = (): void => {
    if (this.#hadTerminal && !isatty(STDIN)) this.#closed.resolve();
    else if (this.#reload) this.#reload();
    else this.#isWaiting = true;
  };
}
