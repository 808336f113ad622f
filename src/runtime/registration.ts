/** From a request to register a model to what the catalog keeps of it. */
import type { PoolManagers } from '../core/ports/pools.ts';
import { checker } from '../kit/check.ts';
import { OrchdError } from '../model/errors.ts';
import { RegisterModel } from '../model/http/catalog.ts';
import { formatModelRef, parseModelRef } from '../model/model-ref.ts';
import type { ModelRegistration } from '../model/records.ts';
import { estimateVram } from '../model/vram.ts';

/** The files of models are at the pools. */
export type ModelFiles = Pick<PoolManagers, 'resolve' | 'verify'>;

export const checkRegister = checker(RegisterModel);

const DEFAULT_CONTEXT = 4096;
/** Models are made for far longer contexts than most devices can hold: more only where context_length asks for it. */
const MAX_DEFAULT_CONTEXT = 8192;
const DEFAULT_SLOTS = 4;

/** Completes a request from what a pool knows of the file: its pinned revision, size and context. */
export async function registrationOf(
  request: RegisterModel,
  files: ModelFiles | undefined,
): Promise<ModelRegistration> {
  const ref = parseModelRef(request.model_ref);
  if (ref.kind === 'alias') {
    throw new OrchdError('INVALID_PARAMS', 'model_ref must begin with hf: or file:', { field: 'model_ref' });
  }
  const canonical = formatModelRef(ref);
  const found = await files?.resolve(canonical);
  if (!found && request.size_bytes === undefined) {
    throw new OrchdError(
      'MODEL_NOT_FOUND',
      'no pool has the file of this model; start a pool that has it, or say size_bytes and context_length',
      { field: 'model_ref' },
    );
  }
  const sizeBytes = found?.size_bytes ?? request.size_bytes ?? 0;
  const pinned = found?.model_ref ?? canonical;
  const contextLength =
    request.context_length ?? Math.min(found?.context_length ?? DEFAULT_CONTEXT, MAX_DEFAULT_CONTEXT);
  const slots = request.slots ?? found?.slots ?? DEFAULT_SLOTS;
  const size = { sizeBytes, kvBytesPerToken: found?.kv_bytes_per_token, contextLength, slots };
  const aliases = new Set(request.aliases ?? []);
  if (pinned !== canonical) aliases.add(canonical);
  return {
    id: request.model_id,
    name: request.name ?? request.model_id,
    ref: pinned,
    aliases: [...aliases],
    sizeBytes,
    vramBytes: request.vram_bytes ?? estimateVram(size),
    vramGuessed: request.vram_bytes === undefined ? true : undefined,
    contextLength,
    slots: request.slots,
    sha256: request.sha256,
    signature: request.signature,
    publicKey: request.public_key,
  };
}
