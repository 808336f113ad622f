/** Where an executor runs: in a process that the brain starts itself, or on a server that somebody else runs. */

export interface Executor {
  readonly uri: string;
  /** The bearer token that it demands, if it demands one. */
  readonly secret: string | undefined;
}

export interface ExecutorHost {
  /** What the executor is called in messages. */
  readonly what: string;
  /** The living executor; where there is none and `isNeeded`, a new one. */
  open(isNeeded: boolean): Promise<Executor | undefined>;
  /** Whether the executor of the last `open` may still answer. */
  readonly isRunning: boolean;
  /** Asks it to end. Only for one without work: what runs has a grace time only. */
  end(): void;
  /** Called at every report. */
  tidy(): void;
}

/** A server that is only called: it is neither started nor ended by the brain. */
export class ForeignServer implements ExecutorHost {
  readonly what: string;
  readonly isRunning = true;
  readonly #executor: Executor;

  constructor(what: string, executor: Executor) {
    this.what = what;
    this.#executor = executor;
  }

  async open(): Promise<Executor> {
    return this.#executor;
  }

  end(): void {}

  tidy(): void {}
}
