/** Puts the models of `orchd up --model` into the catalog before the server answers anybody. */
import type { Env } from '../kit/env/env.ts';
import { poll } from '../kit/poll.ts';
import { Service } from '../kit/service.ts';
import { OrchdError } from '../model/errors.ts';
import { registrationOf } from '../runtime/model-registration.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type OwnModel, refusedModel } from './own-models.ts';
import { OWN_POOL_ID, type OwnPool } from './own-pool.ts';

/** How long the orchestrator may take to get the first report of the pool inside. */
const FIRST_REPORT = { everyMs: 50, atMostMs: 15_000 };

export class RegisterOwnModels extends Service {
  readonly #env: Env;
  readonly #pool: OwnPool;
  readonly #orchestrator: Orchestrator;

  constructor(env: Env, pool: OwnPool, orchestrator: Orchestrator) {
    super();
    this.#env = env;
    this.#pool = pool;
    this.#orchestrator = orchestrator;
  }

  protected async onStart(): Promise<void> {
    const { reads } = this.#orchestrator;
    const isUp = (): true | undefined => reads.isPoolUp(OWN_POOL_ID) || undefined;
    if (!(await poll(this.#env, FIRST_REPORT, isUp)))
      throw new OrchdError('POOL_UNAVAILABLE', 'the pool inside did not answer');
    const { models, contextLength } = this.#pool;
    for (const model of models) {
      const known = await reads.modelRecord(model.ref);
      if (known && (contextLength ?? known.contextLength) === known.contextLength) continue;
      await this.#register(model, contextLength);
    }
  }

  protected async onStop(): Promise<void> {}

  async #register({ name, ref }: OwnModel, contextLength: number | undefined): Promise<void> {
    const { catalog, managers } = this.#orchestrator;
    const request = {
      model_id: name,
      model_ref: ref,
      ...(contextLength !== undefined && { context_length: contextLength }),
    };
    try {
      await catalog.register(await registrationOf(request, managers));
    } catch (error) {
      if (!(error instanceof OrchdError) || error.code !== 'MODEL_NOT_FOUND' || !ref.startsWith('hf:'))
        throw error;
      const repo = ref.slice('hf:'.length).split(/[@:]/)[0];
      throw refusedModel(
        `"${ref}" is not in the cache of the Hugging Face tools; \`hf download ${repo}\` fetches it`,
      );
    }
  }
}
