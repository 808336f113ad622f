/** A worker in a process of its own, whose engine does what its parent orders. Argument: the path of its ledger. */

import type { Engine, EngineInfo, RunContext } from '../../src/daemons/execution/engine.ts';
import type { InferenceRequest } from '../../src/daemons/execution/inference-request.ts';
import { fileLedger } from '../../src/daemons/execution/ledger.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { SteeredRuns, say } from './steered-child.ts';
import { SLOTS } from './steered-news.ts';

class SteeredEngine implements Engine {
  readonly #runs = new SteeredRuns().obey();

  async load(): Promise<EngineInfo> {
    return { model: 'steered', vramBytes: 0, slots: SLOTS, contextLength: 4096, features: ['completions'] };
  }

  run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    return this.#runs.run(request, context);
  }

  async stop(): Promise<void> {}
}

const env = realEnv();
let looks = 0;
/** Moves with every look at it: two moments are never the same, however fast the machine is. */
const monotonic = (): number => env.clock.monotonic() + 2 * ++looks;
const worker = new Worker({
  env: { ...env, clock: { ...env.clock, monotonic } },
  logger: createLogger({ write: () => undefined, now: () => Date.now() }),
  engine: new SteeredEngine(),
  id: 'steered',
  modelRef: 'steered',
  host: '127.0.0.1',
  port: 0,
  ledger: fileLedger(process.argv[2] as string),
});

process.on('SIGTERM', () => void worker.drain(0));

await worker.start();
await worker.loaded;
say({ is: 'listens', url: worker.url, registry: worker.registry });
