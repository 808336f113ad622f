/** The pool manager of `orchd up --model`, which runs inside of the server: one command starts everything. */
import { join } from 'node:path';
import { type PoolManager, startPool } from '../daemons/pool-manager/pool-manager.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { Service } from '../kit/service.ts';
import { type OwnModel, ownModels } from './own-models.ts';

export const OWN_POOL_ID = 'local';

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
  /** The context length of its models, in tokens. */
  readonly contextLength: number | undefined;
  /** The data folder is a copy, or a restored backup. */
  readonly isCopy: boolean;
}

export class OwnPool extends Service {
  readonly #options: OwnPoolOptions;
  #models: readonly OwnModel[] = [];
  #manager: PoolManager | undefined;

  constructor(options: OwnPoolOptions) {
    super();
    this.#options = options;
  }

  /** The models of its workers; known once it has started. */
  get models(): readonly OwnModel[] {
    return this.#models;
  }

  /** The context length that its models are to have, in tokens. */
  get contextLength(): number | undefined {
    return this.#options.contextLength;
  }

  /** The address of the pool manager and the token that the brain shows there; known once it has started. */
  get address(): PoolAddress | undefined {
    return this.#manager && { url: this.#manager.url, secret: this.#manager.token };
  }

  protected async onStart(): Promise<void> {
    const { env, logger, data, workerArgs, isCopy } = this.#options;
    this.#models = await ownModels(env, this.#options.models);
    const folders = this.#models.flatMap(({ folder }) => (folder === undefined ? [] : [folder]));
    const config = {
      pool_id: OWN_POOL_ID,
      host: '127.0.0.1',
      port: 0,
      data: join(data, 'pool'),
      models: [...new Set(folders)],
      worker_args: [...workerArgs],
    };
    // A stop of the server ends its workers; after a kill the next server finds them again.
    this.#manager = await startPool({ config, logger, env, endWorkers: true, isCopy });
  }

  protected async onStop(): Promise<void> {
    await this.#manager?.stop();
  }
}
