/** A pool manager inside `orchd up`, for those who want a model answered and nothing else to start. */
import { basename, dirname, join, resolve } from 'node:path';
import { registrationOf } from '../api/catalog.ts';
import { type PoolManager, startPool } from '../daemons/pool-manager/pool-manager.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { OrchdError } from '../model/errors.ts';
import { parseModelRef } from '../model/model-ref.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';

export interface OwnPoolOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly data: string;
  /** Files, or references such as hf:org/repo or demo:NAME. */
  readonly models: readonly string[];
}

const LOOK_MS = 50;
const PATIENCE_MS = 15_000;

/** One that is named like a file is one. */
const refOf = (model: string): string =>
  /^(hf|file|demo|openai):/.test(model) ? model : `file:${resolve(model)}`;

/** What people call it: the name of its file, or of its repository. */
function nameOf(ref: string): string {
  const parsed = parseModelRef(ref);
  if (parsed.kind === 'hf') return parsed.file ? stem(parsed.file) : parsed.repo;
  return parsed.kind === 'file' ? stem(parsed.path) : parsed.name;
}

const stem = (path: string): string => basename(path).replace(/\.gguf$/i, '');

export class OwnPool {
  readonly #options: OwnPoolOptions;
  readonly #refs: readonly string[];
  #manager: PoolManager | undefined;

  constructor(options: OwnPoolOptions) {
    this.#options = options;
    this.#refs = options.models.map(refOf);
  }

  async start(): Promise<{ readonly url: string; readonly secret: string | undefined }> {
    const { env, logger, data } = this.#options;
    const roots = this.#refs
      .map(parseModelRef)
      .flatMap((ref) => (ref.kind === 'file' ? [dirname(ref.path)] : []));
    const config = {
      pool_id: 'local',
      host: '127.0.0.1',
      port: 0,
      data: join(data, 'pool'),
      models: [...new Set(roots)],
    };
    // Who stops the brain means its workers too; who kills it finds them again.
    this.#manager = await startPool({ config, logger, env, endWorkers: true });
    return { url: this.#manager.url, secret: this.#manager.token };
  }

  /** Puts its models into the catalog, once the brain has heard of the pool. */
  async register(orchestrator: Orchestrator): Promise<void> {
    await this.#heard(orchestrator);
    for (const ref of this.#refs) {
      const asked = { model_id: nameOf(ref), model_ref: ref };
      const known = orchestrator.catalog.find(ref);
      if (!known) await orchestrator.catalog.register(await registrationOf(asked, orchestrator.managers));
    }
  }

  async #heard(orchestrator: Orchestrator): Promise<void> {
    const { clock, timers } = this.#options.env;
    const until = clock.monotonic() + PATIENCE_MS;
    while (!orchestrator.engine.state.pools.get('local')?.up) {
      if (clock.monotonic() > until)
        throw new OrchdError('POOL_UNAVAILABLE', 'the pool inside did not answer');
      await new Promise<void>((done) => {
        timers.after(LOOK_MS, done);
      });
    }
  }

  async stop(): Promise<void> {
    await this.#manager?.stop();
  }
}
