/** A worker in a process of its own, whose engine does what its parent orders. Argument: the path of its ledger. */

import type { Engine, EngineInfo, RunContext } from '../../src/daemons/execution/engine.ts';
import type { InferenceRequest } from '../../src/daemons/execution/inference-request.ts';
import { fileLedger } from '../../src/daemons/execution/ledger.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { SteeredWorks } from './steered-work.ts';
import { SLOTS, type WorkerNews, type WorkerOrder } from './steered-worker-news.ts';

class SteeredEngine implements Engine {
  readonly works = new SteeredWorks();
  readonly running = new Set<Promise<unknown>>();

  async load(): Promise<EngineInfo> {
    return { model: 'steered', vramBytes: 0, slots: SLOTS, contextLength: 4096, features: ['completions'] };
  }

  run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const run = this.#answer(request, context);
    this.running.add(run);
    const ended = (): unknown => this.running.delete(run);
    run.then(ended, ended);
    return run;
  }

  async stop(): Promise<void> {}

  async #answer({ jobId, work }: InferenceRequest, { signal, emit }: RunContext): Promise<ExecutionResult> {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new OrchdError('CANCELLED')));
    });
    const payload = work.kind === 'completion' ? work.prompt : undefined;
    let pieces = 0;
    const ordered = this.works.of(jobId).run(payload, (text) => {
      pieces++;
      emit({ text });
    });
    say({ is: 'begun', job: jobId, payload });
    const end = await Promise.race([ordered, aborted]);
    if (!end.ok)
      throw new OrchdError('EXECUTION_FAILED', 'it was ordered to fail', { retriable: end.retriable });
    const usage = { prompt_tokens: 1, completion_tokens: pieces };
    return { text: end.text, finish_reason: 'stop', usage };
  }
}

function say(news: WorkerNews): void {
  process.send?.(news);
}

const env = realEnv();
let looks = 0;
/** Moves with every look at it: two moments are never the same, however fast the machine is. */
const monotonic = (): number => env.clock.monotonic() + 2 * ++looks;
const engine = new SteeredEngine();
const worker = new Worker({
  env: { ...env, clock: { ...env.clock, monotonic } },
  logger: createLogger({ write: () => undefined, now: () => Date.now() }),
  engine,
  id: 'steered',
  modelRef: 'steered',
  host: '127.0.0.1',
  port: 0,
  ledger: fileLedger(process.argv[2] as string),
});

process.on('SIGTERM', () => void worker.drain(0));
process.on('disconnect', () => process.exit(0));
process.on('message', async (order: WorkerOrder) => {
  if (order.is === 'clear') {
    await engine.works.end();
    await Promise.allSettled(engine.running);
    // The worker takes the ends in before the next message is read.
    setImmediate(() => say({ is: 'cleared' }));
    return;
  }
  const work = engine.works.of(order.job);
  if (order.is === 'say') await work.say(order.text);
  else if (order.is === 'succeed') await work.succeed();
  else await work.fail(order.retriable);
});

await worker.start();
await worker.loaded;
say({ is: 'listens', url: worker.url, registry: worker.registry });
