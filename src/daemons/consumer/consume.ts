/** `orchd consume`: a consumer that runs a command for each job, and whose successor goes on where it was killed. */
import { CommandBackend } from '../../backends/local/command/command.ts';
import type { OfferedCommand } from '../../backends/local/command/options.ts';
import { type ApiAddress, ConsumerApi, isFinal, isGone } from '../../consumer/api.ts';
import { ConsumerLoop } from '../../consumer/consumer-loop.ts';
import { Pauses } from '../../consumer/pauses.ts';
import type { ResumedJob } from '../../consumer/runner.ts';
import type { Offer } from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import type { ConsumerBody } from '../../model/http/consumers.ts';
import { CommandRunner } from './command-runner.ts';
import { StateFolder } from './state-folder.ts';

const WAIT_MS = 20_000;

export interface ConsumeOptions {
  readonly env: Env;
  readonly address: ApiAddress;
  readonly folder: string;
  readonly declared: Omit<ConsumerBody, 'consumer_id'>;
  readonly argv: readonly string[];
  readonly cwd?: string | undefined;
  readonly graceMs: number;
  /** Where it hears of jobs, if the brain uses Redis. */
  readonly redisUrl?: string | undefined;
  readonly onProblem: (message: string) => void;
}

export class Consume extends Service {
  readonly #options: ConsumeOptions;
  readonly #over = Promise.withResolvers<void>();
  #folder: StateFolder | undefined;
  #backend: CommandBackend | undefined;
  #loop: ConsumerLoop | undefined;

  constructor(options: ConsumeOptions) {
    super();
    this.#options = options;
  }

  /** Resolves when the consumer has left, because an operator has let it finish. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  protected async onStart(): Promise<void> {
    const { env, folder: path, declared, argv, cwd, onProblem } = this.#options;
    const folder = await StateFolder.open(env, path, declared.pool, declared.name);
    this.#folder = folder;
    const commandOf = ({ token }: Offer): OfferedCommand => ({
      argv,
      ...(cwd !== undefined && { cwd }),
      env: runner.environmentOf(token),
    });
    const backend = new CommandBackend(env, {
      name: 'consume',
      folder: folder.commands,
      slots: declared.slots,
      types: Object.fromEntries(declared.types.map((name) => [name, commandOf])),
    });
    const runner = new CommandRunner({ env, backend, folder, onProblem });
    this.#backend = backend;
    await backend.start();
    const jobs = await this.#resumed(folder, runner);
    let consumerId: string | undefined = folder.state.consumerId;
    const loop = new ConsumerLoop({
      ...this.#options,
      declared: { ...declared, name: folder.state.name },
      runner,
      waitMs: WAIT_MS,
      // The brain has forgotten the one before.
      consumerId: async () => {
        const id = consumerId ?? (await folder.renew());
        consumerId = undefined;
        return id;
      },
      resumed: { claim: folder.state.claim, jobs },
    });
    this.#loop = loop;
    await loop.start();
    void loop.over.then(() => this.#over.resolve());
  }

  protected async onStop(): Promise<void> {
    await this.#loop?.stop();
    await this.#backend?.stop();
    await this.#folder?.close();
  }

  /** What an earlier process held, if the brain still knows it. */
  async #resumed(folder: StateFolder, runner: CommandRunner): Promise<readonly ResumedJob[]> {
    if (folder.state.claim === 0) return [];
    const jobs = await runner.resumed();
    if (await this.#isKnown(folder, jobs)) return jobs;
    await folder.renew();
    return [];
  }

  async #isKnown({ state }: StateFolder, jobs: readonly ResumedJob[]): Promise<boolean> {
    const { address, env, onProblem } = this.#options;
    const api = new ConsumerApi(address, env.timers);
    const pauses = new Pauses(env.random);
    // The jobs of the last claim may not have been begun: the claim is repeated later.
    const body = { held: jobs.map(({ token }) => token), claimed: Math.max(0, state.claim - 1) };
    try {
      while (!this.stopSignal.aborted) {
        try {
          await api.call('POST', `/v2/consumers/${state.consumerId}/heartbeat`, { body });
          return true;
        } catch (error) {
          if (isGone(error)) return false;
          if (isFinal(error)) throw error;
          onProblem(`a heartbeat failed: ${error instanceof Error ? error.message : error}`);
          await pause(env.timers, pauses.next(), this.stopSignal);
        }
      }
      return true;
    } finally {
      api.close();
    }
  }
}
