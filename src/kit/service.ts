/**
 * The start/stop contract of every long-lived thing.
 *
 * S1  Both are idempotent, and safe to call at once from several places.
 * S2  A stop during a start waits for the start and then stops; `stopSignal` is aborted at once, so that a start or a
 *     loop that looks at it ends early.
 * S3  A start that fails stops what it has begun before it rejects.
 * S4  A stopped service does not start again: whoever needs it again makes a new one.
 *
 * Where the line is: what somebody starts and stops is a Service; what can be used as soon as it is made, and only has
 * to be let go of (a file, a connection, the connections of a client), has a `close` and no more.
 */
type Phase =
  | { readonly is: 'new' }
  | { readonly is: 'starting' | 'running'; readonly started: Promise<void> }
  /** `failure` is what its start was rejected with, where that is why it has stopped. */
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

  /** Aborted when a stop begins, also of a service that was never started. */
  protected get stopSignal(): AbortSignal {
    return this.#stop.signal;
  }

  protected abstract onStart(): Promise<void>;
  /** Called once, and only where a start was begun, which may have failed halfway. */
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
      // Whoever has called stop meanwhile waits for this start, and stops it then.
      if (this.#phase.is === 'starting')
        await this.#stopAfter(Promise.resolve(), { error }).catch(() => undefined);
      throw error;
    }
  }

  /** Without a start there is nothing to wait for, and nothing to stop. */
  #stopAfter(start: Promise<void> | undefined, failure?: { readonly error: unknown }): Promise<void> {
    const { promise: stopped, resolve, reject } = Promise.withResolvers<void>();
    this.#phase = { is: 'stopped', stopped, ...(failure && { failure }) };
    this.#stop.abort();
    if (start !== undefined) start.then(() => this.onStop()).then(resolve, reject);
    else resolve();
    return stopped;
  }
}
