/** Queries about model files. The pools are queried one after another; the first that has the file answers. */

import { checker } from '../../kit/check.ts';
import { OrchdError } from '../../model/errors.ts';
import { ResolvedModel, type VerifyModel, VerifyResult } from '../../model/pool-wire.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';
import type { PoolClient } from './pool-client.ts';

const checkResolved = checker(ResolvedModel);
const checkVerified = checker(VerifyResult);

/** Longer than a pool keeps a caller waiting while it fetches a model from a hub. */
const RESOLVE_TIMEOUT_MS = 30_000;
/** The longest wait for the next event of a verification, which reports progress after each piece it has read. */
const PROGRESS_TIMEOUT_MS = 60_000;

/** A pool manager whose name is known, so that its answer can be attributed. */
export interface NamedPool {
  readonly id: string;
  readonly client: PoolClient;
}

/** The model as the first pool that has it resolves it; undefined where no pool has it. */
export async function resolveModel(
  pools: readonly NamedPool[],
  ref: string,
): Promise<ResolvedModel | undefined> {
  let refused: OrchdError | undefined;
  for (const { client } of pools) {
    try {
      return resolvedOf(await client.query('/v2/models/resolve', { model_ref: ref }, RESOLVE_TIMEOUT_MS));
    } catch (error) {
      // A malformed reference is malformed for every pool: the caller gets this error, not "unknown model".
      if (error instanceof OrchdError && error.code === 'INVALID_PARAMS') refused = error;
    }
  }
  if (refused) throw refused;
  return undefined;
}

/** An answer in another form is the fault of the manager, and not of the caller that named the model. */
function resolvedOf(answer: unknown): ResolvedModel {
  try {
    return checkResolved(answer);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'the pool manager did not say what it found');
  }
}

export async function verifyModel(
  pools: readonly NamedPool[],
  model: VerifyModel,
  onProgress: (bytes: number, total: number) => void,
): Promise<VerifyResult & { readonly pool: string }> {
  let failure = new OrchdError('POOL_UNAVAILABLE', 'no pool could be asked');
  for (const { id, client } of pools) {
    try {
      return { ...(await verifyAt(client, model, onProgress)), pool: id };
    } catch (error) {
      if (error instanceof OrchdError) failure = error;
    }
  }
  throw failure;
}

async function verifyAt(
  client: PoolClient,
  model: VerifyModel,
  onProgress: (bytes: number, total: number) => void,
): Promise<VerifyResult> {
  const reply = await client.stream('/v2/models/verify', model, PROGRESS_TIMEOUT_MS);
  let result: VerifyResult | undefined;
  let failure: OrchdError | undefined;
  await eachEvent(reply, ({ event, data }) => {
    const fields = JSON.parse(data) as Record<string, unknown>;
    if (event === 'progress') onProgress(Number(fields['bytes']), Number(fields['total']));
    else if (event === 'end') result = checkVerified(fields);
    else if (event === 'error')
      failure = new OrchdError('MODEL_NOT_FOUND', String(fields['message']).slice(0, 500));
  });
  if (result) return result;
  throw failure ?? new OrchdError('WORKER_PROTOCOL', 'the pool manager did not say what it found');
}
