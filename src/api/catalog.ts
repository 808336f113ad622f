/** The routes of the catalog: which models there are, and whether their files are the right ones. */

import { type Static, Type } from 'typebox';
import type { PoolManagers } from '../core/ports/pools.ts';
import { checker } from '../kit/check.ts';
import type { Env } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { formatModelRef, parseModelRef } from '../model/model-ref.ts';
import type { VerifyResult } from '../model/pool-wire.ts';
import type { ModelRecord, ModelRegistration } from '../model/records.ts';
import { estimateVram } from '../model/vram.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { openEventStream } from '../wire/event-stream.ts';
import type { Call, Route, Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';

/** Where the files of models are: at the pools. */
export type ModelFiles = Pick<PoolManagers, 'resolve' | 'verify'>;

const optional = Type.Optional;
const MODEL_ID = '^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$';

const Register = Type.Object(
  {
    model_id: Type.String({ pattern: MODEL_ID }),
    name: optional(Type.String({ minLength: 1, maxLength: 255 })),
    model_ref: Type.String({ minLength: 1, maxLength: 1024 }),
    aliases: optional(Type.Array(Type.String({ pattern: MODEL_ID }), { maxItems: 32 })),
    size_bytes: optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    vram_bytes: optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
    slots: optional(Type.Integer({ minimum: 1, maximum: 1024 })),
    sha256: optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
    signature: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$' })),
    public_key: optional(Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$' })),
  },
  { additionalProperties: false },
);

const SetState = Type.Object(
  {
    state: Type.Enum(['Active', 'Retired', 'active', 'retired']),
  },
  { additionalProperties: false },
);

export const checkRegister = checker(Register);
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
      body: Register,
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

const USUAL_CONTEXT = 4096;
/** Models are made for far longer contexts than most devices can hold; who wants more says so. */
const LONGEST_UNASKED = 8192;
const USUAL_SLOTS = 4;

/** Pinned where a pool can tell; otherwise what was said must do. */
export async function registrationOf(
  asked: Static<typeof Register>,
  files: ModelFiles | undefined,
): Promise<ModelRegistration> {
  const ref = parseModelRef(asked.model_ref);
  if (ref.kind === 'alias') {
    throw new OrchdError('INVALID_PARAMS', 'model_ref must begin with hf: or file:', { field: 'model_ref' });
  }
  const canonical = formatModelRef(ref);
  const found = await files?.resolve(canonical);
  if (!found && asked.size_bytes === undefined) {
    throw new OrchdError(
      'MODEL_NOT_FOUND',
      'no pool has the file of this model; start a pool that has it, or say size_bytes and context_length',
      { field: 'model_ref' },
    );
  }
  const sizeBytes = found?.size_bytes ?? asked.size_bytes ?? 0;
  const pinned = found?.model_ref ?? canonical;
  const contextLength =
    asked.context_length ?? Math.min(found?.context_length ?? USUAL_CONTEXT, LONGEST_UNASKED);
  const slots = asked.slots ?? found?.slots ?? USUAL_SLOTS;
  const size = { sizeBytes, kvBytesPerToken: found?.kv_bytes_per_token, contextLength, slots };
  const aliases = new Set(asked.aliases ?? []);
  if (pinned !== canonical) aliases.add(canonical);
  return {
    id: asked.model_id,
    name: asked.name ?? asked.model_id,
    ref: pinned,
    aliases: [...aliases],
    sizeBytes,
    vramBytes: asked.vram_bytes ?? estimateVram(size),
    vramGuessed: asked.vram_bytes === undefined ? true : undefined,
    contextLength,
    slots: asked.slots,
    sha256: asked.sha256,
    signature: asked.signature,
    publicKey: asked.public_key,
  };
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
