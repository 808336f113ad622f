/** Builds the registration of a model from a request; what the request leaves out is read from the model file. */
import type { PoolManagers } from '../core/ports/pools.ts';
import { OrchdError } from '../model/errors.ts';
import type { RegisterModel } from '../model/http/catalog.ts';
import { formatModelRef, parseModelRef } from '../model/model-ref.ts';
import type { ModelRegistration } from '../model/records.ts';
import { estimateVram } from '../model/vram.ts';

/** Used if neither the request nor the file gives a context length. */
const DEFAULT_CONTEXT_LENGTH = 4096;
const DEFAULT_SLOTS = 4;
/**
 * Cap for a context length read from the file: most files allow more than devices can hold. Only the request can
 * exceed it.
 */
const MAX_DEFAULT_CONTEXT_LENGTH = 8192;

/** Completes the registration from the model file, if a pool has it; otherwise the request must give `size_bytes`. */
export async function registrationOf(
  request: RegisterModel,
  files: Pick<PoolManagers, 'resolve'> | undefined,
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
    request.context_length ??
    Math.min(found?.context_length ?? DEFAULT_CONTEXT_LENGTH, MAX_DEFAULT_CONTEXT_LENGTH);
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
