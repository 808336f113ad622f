/**
 * A worker with a demo engine that records the time of each execution's last token, and on another port a stub of the
 * pool manager through which a brain finds the worker. The stub also serves `GET /over?mark=M`: it answers once the
 * execution whose prompt contains that mark has ended, with the times of its end and of its last token.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RunContext } from '../../src/daemons/execution/engine.ts';
import type { InferenceRequest } from '../../src/daemons/execution/inference-request.ts';
import { DemoEngine } from '../../src/daemons/worker/demo-engine.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { sharedNow } from '../kit/numbers.ts';
import { answerAsPool, MODEL_REF, type OnlyWorker } from './pool-stub.ts';

const SLOTS = 64;
const CONTEXT = 100_000;
const MARK = /mark-\d+/;

/** The times of an execution's last token and end, on the clock of sharedNow(). */
export interface ExecutionEnd {
  readonly lastToken: number;
  readonly ended: number;
}

interface Watch {
  lastToken: number;
  readonly over: PromiseWithResolvers<number>;
}

class WatchedEngine extends DemoEngine {
  readonly #watches = new Map<string, Watch>();

  override run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const watch = this.#watchOf(MARK.exec(JSON.stringify(request.work))?.[0] ?? '');
    const emit: RunContext['emit'] = (piece) => {
      watch.lastToken = sharedNow();
      context.emit(piece);
    };
    return super.run(request, { ...context, emit }).finally(() => watch.over.resolve(sharedNow()));
  }

  async over(mark: string): Promise<ExecutionEnd> {
    const watch = this.#watchOf(mark);
    const ended = await watch.over.promise;
    this.#watches.delete(mark);
    return { lastToken: watch.lastToken, ended };
  }

  #watchOf(mark: string): Watch {
    const watch = this.#watches.get(mark) ?? { lastToken: 0, over: Promise.withResolvers<number>() };
    this.#watches.set(mark, watch);
    return watch;
  }
}

/** Starts both and returns the port of the pool manager. */
export async function start({ delayMs }: { readonly delayMs: number }): Promise<number> {
  const env = realEnv();
  const logger = createLogger({ write: () => undefined, now: () => Date.now() });
  const options = { env, model: 'bench', slots: SLOTS, contextLength: CONTEXT, delayMs };
  const engine = new WatchedEngine(options);
  const host = '127.0.0.1';
  const worker = new Worker({ env, logger, engine, id: 'worker', modelRef: MODEL_REF, host, port: 0 });
  await worker.start();
  await worker.loaded;
  const only: OnlyWorker = { uri: worker.url, slots: SLOTS, registry: worker.registry };
  const server = createServer((incoming, response) => {
    if (answerAsPool(only, incoming, response)) return;
    const { searchParams } = new URL(incoming.url ?? '/', 'http://pool');
    void engine.over(searchParams.get('mark') ?? '').then((over) => response.end(JSON.stringify(over)));
  });
  await new Promise<void>((resolve) => {
    server.listen({ host, port: 0 }, resolve);
  });
  return (server.address() as AddressInfo).port;
}
