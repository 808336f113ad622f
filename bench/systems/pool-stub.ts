/** A stub of a pool manager with one worker that is always ready; the brain then talks to the worker directly. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PoolState } from '../../src/model/pool-wire.ts';

/** The name and the reference of the model. */
export const MODEL = 'bench';
export const MODEL_REF = 'demo:bench';
const VRAM_BYTES = 2 ** 20;
const VERSION = 1;

export interface OnlyWorker {
  readonly uri: string;
  readonly slots: number;
  readonly registry: string;
}

/** Answers a brain's call to a pool manager; returns false for any other call. */
export function answerAsPool(
  worker: OnlyWorker,
  incoming: IncomingMessage,
  response: ServerResponse,
): boolean {
  const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://pool');
  if (!pathname.startsWith('/v2/')) return false;
  incoming.resume();
  const sendJson = (body: object): void => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(body));
  };
  if (pathname === '/v2/models/resolve')
    sendJson({ model_ref: MODEL_REF, size_bytes: 1, context_length: 4096 });
  else if (pathname !== '/v2/state') response.writeHead(404).end('{}');
  else if (Number(searchParams.get('after')) !== VERSION) sendJson(stateOf(worker));
  else setTimeout(() => sendJson(stateOf(worker)), Number(searchParams.get('wait_ms')));
  return true;
}

/** The device is full, so that the brain starts no other worker. */
const stateOf = ({ uri, slots, registry }: OnlyWorker): PoolState => ({
  pool_id: 'bench',
  registry: 'bench',
  version: VERSION,
  gpus: [
    {
      id: 0,
      kind: 'cpu',
      name: 'bench',
      total_vram: VRAM_BYTES,
      allocated_vram: VRAM_BYTES,
      available_vram: 0,
      status: 'ok',
      workers: ['worker'],
    },
  ],
  workers: [
    {
      id: 'worker',
      model_ref: MODEL_REF,
      gpu: 0,
      vram_used: VRAM_BYTES,
      uri,
      status: 'ready',
      started_at: new Date(0).toISOString(),
      slots,
      context_length: 100_000,
      registry,
    },
  ],
});

/** Registers the model at a brain; jobs may name it once this has returned. */
export async function registerModel(port: number): Promise<void> {
  const body = { model_id: MODEL, model_ref: MODEL_REF, size_bytes: 1, vram_bytes: VRAM_BYTES };
  const answer = await fetch(`http://127.0.0.1:${port}/v2/catalog/models`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, context_length: 100_000 }),
  });
  if (answer.status !== 200) throw new Error(`the model was refused: ${await answer.text()}`);
}
