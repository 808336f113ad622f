/** Questions about the files of models, put to the pools: whichever has the file answers. */

import { checker } from '../../kit/check.ts';
import { OrchdError } from '../../model/errors.ts';
import { ResolvedModel, type VerifyModel, VerifyResult } from '../../model/pool-wire.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';
import type { PoolClient } from './pool-client.ts';

const checkResolved = checker(ResolvedModel);
const checkVerified = checker(VerifyResult);

/** A pool may have to fetch what it is asked for. */
const RESOLVE_MS = 30_000;
/** A file is read piece by piece, and every piece is told. */
const SILENT_MS = 60_000;

export interface AskedPool {
  readonly id: string;
  readonly client: PoolClient;
}

/** The first pool that has it says where it is; undefined where none does. */
export async function resolveModel(
  pools: readonly AskedPool[],
  ref: string,
): Promise<ResolvedModel | undefined> {
  let refused: OrchdError | undefined;
  for (const { client } of pools) {
    try {
      return checkResolved(await client.ask('/v2/models/resolve', { model_ref: ref }, RESOLVE_MS));
    } catch (error) {
      // What is wrong with the reference itself is wrong everywhere.
      if (error instanceof OrchdError && error.code === 'INVALID_PARAMS') refused = error;
    }
  }
  if (refused) throw refused;
  return undefined;
}

export async function verifyModel(
  pools: readonly AskedPool[],
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
  const reply = await client.stream('/v2/models/verify', model, SILENT_MS);
  let result: VerifyResult | undefined;
  let failure: OrchdError | undefined;
  await eachEvent(reply, ({ event, data }) => {
    const said = JSON.parse(data) as Record<string, unknown>;
    if (event === 'progress') onProgress(Number(said['bytes']), Number(said['total']));
    else if (event === 'end') result = checkVerified(said);
    else if (event === 'error')
      failure = new OrchdError('MODEL_NOT_FOUND', String(said['message']).slice(0, 500));
  });
  if (result) return result;
  throw failure ?? new OrchdError('WORKER_PROTOCOL', 'the pool manager did not say what it found');
}
