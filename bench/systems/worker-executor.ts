/**
 * A worker as `orchd worker --upstream` runs it, and on another port a stub of the pool manager through which a brain
 * finds it.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OpenAiEngine } from '../../src/daemons/worker/openai-engine.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { answerAsPool, MODEL, MODEL_REF, type OnlyWorker } from './pool-stub.ts';

/** More streams than the bench opens. */
export const SLOTS = 1000;
const CONTEXT = 100_000;
const HOST = '127.0.0.1';

export interface ExecutorArgs {
  readonly folder: string;
  /** The port of the server that runs the model. */
  readonly upstream: number;
}

export interface ExecutorPorts {
  readonly port: number;
  /** The port at which a brain finds the executor. */
  readonly forBrain: number;
}

export async function start({ upstream }: ExecutorArgs): Promise<ExecutorPorts> {
  const env = realEnv();
  const logger = createLogger({ write: () => undefined, now: () => Date.now() });
  const engine = new OpenAiEngine({
    env,
    model: MODEL,
    url: `http://${HOST}:${upstream}`,
    command: undefined,
    key: undefined,
    slots: SLOTS,
    contextLength: CONTEXT,
  });
  const worker = new Worker({ env, logger, engine, id: 'worker', modelRef: MODEL_REF, host: HOST, port: 0 });
  await worker.start();
  await worker.loaded;
  const only: OnlyWorker = { uri: worker.url, slots: SLOTS, registry: worker.registry };
  const pool = createServer((incoming, response) => void answerAsPool(only, incoming, response));
  await new Promise<void>((resolve) => {
    pool.listen({ host: HOST, port: 0 }, resolve);
  });
  const { port } = pool.address() as AddressInfo;
  return { port: Number(new URL(worker.url).port), forBrain: port };
}
