/** Waits at the start until upstreams and gateway have answered, so that the first request finds their models. */
import type { Env } from '../kit/env/env.ts';
import { Service } from '../kit/service.ts';
import { within } from '../kit/within.ts';

/** One that takes longer is used as soon as it answers. */
export const FIRST_REPORTS_MS = 5000;

interface OtherServer {
  /** Settles when it has answered once, or is known to be away. */
  firstReports(): Promise<void>;
}

export class AwaitServers extends Service {
  readonly #env: Env;
  readonly #servers: readonly OtherServer[];

  constructor(env: Env, servers: readonly OtherServer[]) {
    super();
    this.#env = env;
    this.#servers = servers;
  }

  protected async onStart(): Promise<void> {
    const reports = Promise.all(this.#servers.map((server) => server.firstReports()));
    await within(this.#env.timers, FIRST_REPORTS_MS, reports, undefined);
  }

  protected async onStop(): Promise<void> {}
}
