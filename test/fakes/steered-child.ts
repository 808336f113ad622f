/** In a process of its own: work that does what the parent process orders, over the channel between the two. */
import type { RunContext } from '../../src/daemons/execution/engine.ts';
import type { InferenceRequest } from '../../src/daemons/execution/inference-request.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import type { ExecutorNews, ExecutorOrder } from './steered-news.ts';
import { SteeredWorks } from './steered-work.ts';

export function say(news: ExecutorNews): void {
  process.send?.(news);
}

export class SteeredRuns {
  readonly #works = new SteeredWorks();
  readonly #running = new Set<Promise<unknown>>();

  /** Obeys the parent from now on, and ends with it. */
  obey(): this {
    process.on('disconnect', () => process.exit(0));
    process.on('message', (order: ExecutorOrder) => void this.#obey(order));
    return this;
  }

  run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const run = this.#answer(request, context);
    this.#running.add(run);
    const ended = (): unknown => this.#running.delete(run);
    run.then(ended, ended);
    return run;
  }

  async #obey(order: ExecutorOrder): Promise<void> {
    if (order.is === 'clear') {
      await this.#works.end();
      await Promise.allSettled(this.#running);
      // The executor takes the ends in before the next message is read.
      setImmediate(() => say({ is: 'cleared' }));
      return;
    }
    const work = this.#works.of(order.job);
    if (order.is === 'say') await work.say(order.text);
    else if (order.is === 'succeed') await work.succeed();
    else await work.fail(order.retriable);
  }

  async #answer({ jobId, work }: InferenceRequest, { signal, emit }: RunContext): Promise<ExecutionResult> {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new OrchdError('CANCELLED')));
    });
    const payload = work.kind === 'completion' ? work.prompt : undefined;
    let pieces = 0;
    const ordered = this.#works.of(jobId).run(payload, (text) => {
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
