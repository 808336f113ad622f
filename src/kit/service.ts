/**
 * The start/stop contract of every long-lived part of the process.
 *
 * S1  `start` and `stop` are idempotent and may be called concurrently.
 * S2  A stop during a start waits for the start and then stops; `stopSignal` is aborted at once, so that a start or a
 *     loop that looks at it ends early.
 * S3  A start that fails calls onStop to undo what it has begun before it rejects.
 * S4  A stopped service cannot be started again; make a new one.
 *
 * An object that is usable as soon as it is constructed and only has to be released (a file, a connection, a client's
 * connection pool) is no Service: it has a `close` method and no `start`.
 */
type Phase =
  | { readonly is: 'new' }
  | { readonly is: 'starting' | 'running'; readonly started: Promise<void> }
  /** `failure` is the error of the start, where a failed start is the reason for the stop. */
  | {
      readonly is: 'stopped';
      readonly stopped: Promise<void>;
      readonly failure?: { readonly error: unknown };
    };

export abstract class Service {
  #phase: Phase = { is: 'new' };
  readonly #stop = new AbortController();

  get running(): boolean {
    return this.#phase.is === 'running';
  }

  /** Aborted when `stop` is called, also on a service that was never started. */
  protected get stopSignal(): AbortSignal {
    return this.#stop.signal;
  }

  protected abstract onStart(): Promise<void>;
  /** Called once, and only after onStart was called; onStart may have failed halfway. */
  protected abstract onStop(): Promise<void>;

  start(): Promise<void> {
    const phase = this.#phase;
    if (phase.is === 'starting' || phase.is === 'running') return phase.started;
    if (phase.is === 'stopped')
      return Promise.reject(
        phase.failure ? phase.failure.error : new Error('a stopped service does not start again'),
      );
    const { promise: started, resolve, reject } = Promise.withResolvers<void>();
    this.#phase = { is: 'starting', started };
    this.#start(started).then(resolve, reject);
    return started;
  }

  stop(): Promise<void> {
    const phase = this.#phase;
    if (phase.is === 'stopped') return phase.stopped;
    return this.#stopAfter(phase.is === 'new' ? undefined : phase.started.catch(() => undefined));
  }

  async #start(started: Promise<void>): Promise<void> {
    try {
      await this.onStart();
      if (this.#phase.is === 'starting') this.#phase = { is: 'running', started };
    } catch (error) {
      // If `stop` was called meanwhile, it is waiting for this start and will call onStop itself.
      if (this.#phase.is === 'starting')
        await this.#stopAfter(Promise.resolve(), { error }).catch(() => undefined);
      throw error;
    }
  }

  /** Calls onStop when `start` has settled. Without a start, onStop is not called. */
  #stopAfter(start: Promise<void> | undefined, failure?: { readonly error: unknown }): Promise<void> {
    const { promise: stopped, resolve, reject } = Promise.withResolvers<void>();
    this.#phase = { is: 'stopped', stopped, ...(failure && { failure }) };
    this.#stop.abort();
    if (start !== undefined) start.then(() => this.onStop()).then(resolve, reject);
    else resolve();
    return stopped;
  }
}
