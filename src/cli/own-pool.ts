/** A pool manager inside `orchd up`, for those who want a model answered and nothing else to start. */
import { join } from 'node:path';
import { type PoolManager, startPool } from '../daemons/pool-manager/pool-manager.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { poll } from '../kit/poll.ts';
import { Service } from '../kit/service.ts';
import { OrchdError } from '../model/errors.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { registrationOf } from '../runtime/registration.ts';
import { UsageError } from './command.ts';
import { type OwnModel, ownModels } from './own-models.ts';

export interface PoolAddress {
  readonly url: string;
  readonly secret: string | undefined;
}

export interface OwnPoolOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly data: string;
  /** Files, or references such as hf:org/repo or demo:NAME. */
  readonly models: readonly string[];
  /** Options for its workers, beside those that the pool gives them. */
  readonly workerArgs: readonly string[];
  /** How long the context of its models is to be. */
  readonly contextLength: number | undefined;
}

/** For the brain to hear of the pool that was started with it. */
const FIRST_REPORT = { everyMs: 50, atMostMs: 15_000 };

export class OwnPool extends Service {
  readonly #options: OwnPoolOptions;
  #models: readonly OwnModel[] = [];
  #manager: PoolManager | undefined;

  constructor(options: OwnPoolOptions) {
    super();
    this.#options = options;
  }

  /** What its models are called; known once it has started. */
  get names(): readonly string[] {
    return this.#models.map(({ name }) => name);
  }

  /** Where the brain reaches it, and what it shows there; known once it has started. */
  get address(): PoolAddress | undefined {
    return this.#manager && { url: this.#manager.url, secret: this.#manager.token };
  }

  protected async onStart(): Promise<void> {
    const { env, logger, data, workerArgs } = this.#options;
    this.#models = await ownModels(env, this.#options.models);
    const folders = this.#models.flatMap(({ folder }) => (folder === undefined ? [] : [folder]));
    const config = {
      pool_id: 'local',
      host: '127.0.0.1',
      port: 0,
      data: join(data, 'pool'),
      models: [...new Set(folders)],
      worker_args: [...workerArgs],
    };
    // Who stops the brain means its workers too; who kills it finds them again.
    this.#manager = await startPool({ config, logger, env, endWorkers: true });
  }

  protected async onStop(): Promise<void> {
    await this.#manager?.stop();
  }

  /** Puts its models into the catalog, once the brain has heard of the pool. */
  async register(orchestrator: Orchestrator): Promise<void> {
    await this.#heard(orchestrator);
    const { contextLength } = this.#options;
    for (const model of this.#models) {
      const known = await orchestrator.reads.modelRecord(model.ref);
      if (known && (contextLength ?? known.contextLength) === known.contextLength) continue;
      await register(orchestrator, model, contextLength);
    }
  }

  async #heard(orchestrator: Orchestrator): Promise<void> {
    const isUp = (): true | undefined => orchestrator.reads.isPoolUp('local') || undefined;
    if (await poll(this.#options.env, FIRST_REPORT, isUp)) return;
    throw new OrchdError('POOL_UNAVAILABLE', 'the pool inside did not answer');
  }
}

async function register(
  { catalog, managers }: Orchestrator,
  { name, ref }: OwnModel,
  contextLength: number | undefined,
): Promise<void> {
  const longest = contextLength === undefined ? {} : { context_length: contextLength };
  try {
    await catalog.register(await registrationOf({ model_id: name, model_ref: ref, ...longest }, managers));
  } catch (error) {
    if (!(error instanceof OrchdError) || error.code !== 'MODEL_NOT_FOUND' || !ref.startsWith('hf:'))
      throw error;
    const repo = ref.slice('hf:'.length).split(/[@:]/)[0];
    throw new UsageError(
      `--model: "${ref}" is not in the cache of the Hugging Face tools; \`hf download ${repo}\` fetches it.`,
    );
  }
}
