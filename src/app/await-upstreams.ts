/** Waits at the start until the upstreams have answered, so that the first request finds their models. */
import type { UpstreamSource } from '../adapters/upstreams/upstream-source.ts';
import type { Env } from '../kit/env/env.ts';
import { Service } from '../kit/service.ts';
import { within } from '../kit/within.ts';

/** An upstream that takes longer is used as soon as it answers. */
const FIRST_REPORTS_MS = 5000;

export class AwaitUpstreams extends Service {
  readonly #env: Env;
  readonly #source: UpstreamSource;

  constructor(env: Env, source: UpstreamSource) {
    super();
    this.#env = env;
    this.#source = source;
  }

  protected async onStart(): Promise<void> {
    await within(this.#env.timers, FIRST_REPORTS_MS, this.#source.firstReports(), undefined);
  }

  protected async onStop(): Promise<void> {}
}
