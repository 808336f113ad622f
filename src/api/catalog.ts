/** The routes of the catalog: which models there are, and whether their files are the right ones. */

import { Type } from 'typebox';
import type { PoolManagers } from '../core/ports/pools.ts';
import { checker } from '../kit/check.ts';
import type { Env } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import type { VerifyResult } from '../model/pool-wire.ts';
import type { ModelRecord } from '../model/records.ts';
import { RegisterModel } from '../model/register-model.ts';
import { registrationOf } from '../runtime/model-registration.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { openEventStream } from '../wire/event-stream.ts';
import type { Call, Route, Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';

/** Where the files of models are: at the pools. */
export type ModelFiles = Pick<PoolManagers, 'resolve' | 'verify'>;

const SetState = Type.Object(
  {
    state: Type.Enum(['Active', 'Retired', 'active', 'retired']),
  },
  { additionalProperties: false },
);

const checkRegister = checker(RegisterModel);
const checkState = checker(SetState);

export interface CatalogOptions {
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly files: ModelFiles | undefined;
  readonly verifyPolicy: 'warn' | 'block';
}

export function catalogRoutes(
  { catalog, reads, managers: files }: Orchestrator,
  given: Omit<CatalogOptions, 'files'>,
): readonly Route[] {
  const options: CatalogOptions = { ...given, files };
  return [
    {
      method: 'POST',
      path: '/v2/catalog/models',
      role: 'admin',
      summary: 'Register a model, or change what is said of it',
      body: RegisterModel,
      answers: { 200: 'Registered, and durable', 404: 'No pool has its file', 409: 'A name is taken' },
      repeatable: ({ body }) => body,
      handle: async ({ body }) => ({
        status: 200,
        body: await catalog.register(await registrationOf(checkRegister(body), options.files)),
      }),
    },
    {
      method: 'GET',
      path: '/v2/catalog/models',
      role: 'read',
      summary: 'The models of the catalog',
      answers: { 200: 'The models' },
      handle: async () => ({ status: 200, body: { models: await reads.models() } }),
    },
    {
      method: 'GET',
      path: '/v2/catalog/models/:id',
      role: 'read',
      summary: 'One model, by its id, an alias or its reference',
      answers: { 200: 'The model', 404: 'No such model' },
      handle: async (call) => ({ status: 200, body: await reads.model(idOf(call)) }),
    },
    {
      method: 'POST',
      path: '/v2/catalog/models/:id/state',
      role: 'admin',
      summary: 'Retire a model, or make it active again',
      body: SetState,
      answers: { 200: 'As it is now', 404: 'No such model' },
      repeatable: ({ body }) => body,
      handle: async (call) => {
        const state = checkState(call.body).state.toLowerCase() as ModelRecord['state'];
        return { status: 200, body: await catalog.setState(idOf(call), state) };
      },
    },
    {
      method: 'POST',
      path: '/v2/catalog/models/:id/verify',
      role: 'operate',
      summary: 'Compare the file of a model with its checksum and signature, where it lies',
      answers: {
        200: 'The verdict; as events with the progress where those are accepted',
        404: 'No such model',
      },
      passedOn: true,
      handle: async (call) => {
        const verification = new VerificationOf(catalog, options, await modelOf(reads, idOf(call)));
        if (!call.headers.accept?.includes('text/event-stream'))
          return { status: 200, body: await verification.run(() => undefined) };
        return verification.stream();
      },
    },
  ];
}

const idOf = (call: Call): string => call.params['id'] ?? '';

async function modelOf(reads: Orchestrator['reads'], id: string): Promise<ModelRecord> {
  const model = await reads.modelRecord(id);
  if (!model) throw new OrchdError('MODEL_NOT_FOUND', `there is no model "${id.slice(0, 200)}"`);
  return model;
}

/** One look at the file of a model. */
class VerificationOf {
  readonly #catalog: Orchestrator['catalog'];
  readonly #options: CatalogOptions;
  readonly #model: ModelRecord;

  constructor(catalog: Orchestrator['catalog'], options: CatalogOptions, model: ModelRecord) {
    this.#catalog = catalog;
    this.#options = options;
    this.#model = model;
  }

  async run(onProgress: (bytes: number, total: number) => void): Promise<object> {
    const { files, verifyPolicy, env } = this.#options;
    if (!files) throw new OrchdError('POOL_UNAVAILABLE', 'no pool manager is configured');
    const { id, ref, sha256, signature, publicKey } = this.#model;
    const expected = {
      model_ref: ref,
      ...(sha256 !== undefined && { sha256 }),
      ...(signature !== undefined && { signature }),
      ...(publicKey !== undefined && { public_key: publicKey }),
    };
    const result = await files.verify(expected, onProgress);
    const verdict = verdictOf(result, verifyPolicy);
    const verified = { at: env.clock.now(), pool: result.pool, verdict, sha256: result.sha256 };
    const model = await this.#catalog.verified(id, verified);
    return { verdict, ...result, model };
  }

  stream(): Stream {
    const { env, heartbeatMs } = this.#options;
    return {
      stream: (request, response) => {
        const nothing = (): void => undefined;
        const parts = {
          request,
          response,
          timers: env.timers,
          heartbeatMs,
          onDrain: nothing,
          onClose: nothing,
        };
        const out = openEventStream(parts);
        const say = (event: string, data: object): void => {
          out.write(formatEvent({ event, data: JSON.stringify(data) }));
        };
        this.run((bytes, total) => say('progress', { bytes, total }))
          .then(
            (verdict) => say('end', verdict),
            (error) => say('error', error instanceof OrchdError ? error.info() : { code: 'INTERNAL' }),
          )
          .finally(() => out.end());
      },
    };
  }
}

/** What does not match is a warning, unless it is the policy that it blocks; so is having nothing to compare. */
function verdictOf(
  { checksum, signature }: VerifyResult,
  policy: 'warn' | 'block',
): 'pass' | 'warn' | 'fail' {
  if (checksum === 'fail' || signature === 'fail') return policy === 'block' ? 'fail' : 'warn';
  return checksum === 'pass' || signature === 'pass' ? 'pass' : 'warn';
}
