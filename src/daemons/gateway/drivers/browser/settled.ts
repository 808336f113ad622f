import type { Env } from '../../../../kit/env/env.ts';

/** Whether something has stayed the same for a while. */
export class Settled {
  readonly #env: Pick<Env, 'clock'>;
  readonly #ms: number;
  #value: string | undefined;
  #since = 0;

  constructor(env: Pick<Env, 'clock'>, ms: number) {
    this.#env = env;
    this.#ms = ms;
  }

  look(value: string): boolean {
    const now = this.#env.clock.monotonic();
    if (value !== this.#value) {
      this.#value = value;
      this.#since = now;
    }
    return now - this.#since >= this.#ms;
  }
}
