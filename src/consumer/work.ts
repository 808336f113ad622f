/** The jobs that a consumer holds, under its present registration, and those whose handlers still run. */
import type { ConsumerRegistered, HeldAnswer } from '../model/http/consumers.ts';
import { HeldJob } from './held-job.ts';
import type { News } from './news.ts';

export class Work {
  readonly held = new Map<string, HeldJob>();
  /** Handlers that have not ended, also of jobs that were lost: their tokens, and when they began, the oldest first. */
  readonly running = new Map<string, number>();
  readonly news: News;
  registration: ConsumerRegistered | undefined;
  /** The number of the last claim whose answer has arrived. */
  claimed = 0;

  constructor(news: News) {
    this.news = news;
  }

  free(slots: number): number {
    return slots - new Set([...this.held.keys(), ...this.running.keys()]).size;
  }

  get isIdle(): boolean {
    return this.held.size === 0 && this.running.size === 0;
  }

  hold(token: string): HeldJob {
    const job = new HeldJob(token, () => this.news.tell());
    this.held.set(token, job);
    return job;
  }

  drop(token: string): void {
    this.held.delete(token);
    this.news.tell();
  }

  lose(token: string): void {
    const job = this.held.get(token);
    if (!job) return;
    job.isLost = true;
    job.stop('lost');
    this.drop(token);
  }

  /** The brain does not know this consumer any more: nothing that it holds is its own. */
  forget(): void {
    this.registration = undefined;
    for (const token of [...this.held.keys()]) this.lose(token);
    this.news.tell();
  }

  hear({ stop, lost, events }: HeldAnswer): void {
    for (const { token, why } of stop) this.held.get(token)?.stop(why);
    for (const token of lost) this.lose(token);
    for (const [token, n] of Object.entries(events)) this.held.get(token)?.compare(n);
  }
}
