/** The parent's side of an executor in a process of its own whose work is ordered from here (steered-child.ts). */
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { SteeredExecution } from '../../src/backends/conformance/harness.ts';
import type { ExecutorNews, ExecutorOrder } from './steered-news.ts';

export class SteeredProcess {
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  readonly #cleared: (() => void)[] = [];
  readonly #begun = new Map<string, { count: number; payload: PromiseWithResolvers<unknown> }>();
  readonly listens: Promise<{ readonly url: string; readonly registry: string }>;

  /** `main` is a file of this folder. */
  constructor(main: string, args: readonly string[]) {
    this.#child = fork(join(import.meta.dirname, main), args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#gone = new Promise((resolve) => {
      this.#child.on('exit', () => resolve());
    });
    this.listens = new Promise((resolve, reject) => {
      this.#child.on('message', (news: ExecutorNews) => {
        if (news.is === 'listens') resolve(news);
        else if (news.is === 'cleared') this.#cleared.shift()?.();
        else this.#noteBegun(news.job, news.payload);
      });
      this.#child.on('exit', () => reject(new Error('the executor has ended')));
    });
    this.listens.catch(() => undefined);
  }

  execution(job: string): SteeredExecution {
    return {
      begun: this.#entry(job).payload.promise,
      say: async (text) => this.#order({ is: 'say', job, text }),
      succeed: async () => this.#order({ is: 'succeed', job }),
      fail: async (retriable) => this.#order({ is: 'fail', job, retriable }),
    };
  }

  count(job: string): number {
    return this.#entry(job).count;
  }

  /** Nothing runs any more. */
  clear(): Promise<void> {
    return new Promise((resolve) => {
      this.#cleared.push(resolve);
      this.#order({ is: 'clear' });
    });
  }

  stop(): void {
    this.#child.kill('SIGTERM');
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#gone;
  }

  #order(order: ExecutorOrder): void {
    this.#child.send(order);
  }

  #entry(job: string): { count: number; payload: PromiseWithResolvers<unknown> } {
    const known = this.#begun.get(job) ?? { count: 0, payload: Promise.withResolvers<unknown>() };
    this.#begun.set(job, known);
    return known;
  }

  #noteBegun(job: string, payload: unknown): void {
    const entry = this.#entry(job);
    entry.count++;
    entry.payload.resolve(payload);
  }
}
