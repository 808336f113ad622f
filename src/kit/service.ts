/**
 * The start/stop contract of every long-lived thing: both are idempotent, safe to call at once from several
 * places, and a stop during a start waits for the start and then stops.
 */
export abstract class Service {
  #phase: 'idle' | 'running' | 'stopped' = 'idle';
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  get running(): boolean {
    return this.#phase === 'running';
  }

  protected abstract onStart(): Promise<void>;
  protected abstract onStop(): Promise<void>;

  start(): Promise<void> {
    if (this.#stopping !== undefined)
      return Promise.reject(new Error('a stopped service does not start again'));
    this.#starting ??= this.onStart().then(() => {
      this.#phase = 'running';
    });
    return this.#starting;
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const started = await this.#starting?.then(
      () => true,
      () => true,
    );
    this.#phase = 'stopped';
    if (started) await this.onStop();
  }
}
