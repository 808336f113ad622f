/** A brain with consumers of every language, and what is asked about their jobs. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  type ConsumerProgram,
  LANGUAGES,
  type Language,
  type RunningConsumer,
  startConsumer,
  type Told,
} from '../fakes/consumer-programs.ts';
import { testFolder } from './server-process.ts';

export const EACH = Object.keys(LANGUAGES) as readonly Language[];

interface JobSeen {
  readonly state: string;
  readonly result?: unknown;
  readonly error?: { readonly code: string; readonly reason?: string; readonly message: string };
  readonly tries: number;
  readonly attempts: readonly { readonly outcome?: string; readonly state: string }[];
}

const ENDED = ['succeeded', 'dead', 'cancelled'];

export class ConsumerSite {
  readonly folder: string;
  readonly ledger: string;
  readonly url: string;
  readonly #t: TestContext;
  readonly #redis: { readonly redisUrl?: string };

  /** `redisUrl`: where its consumers hear of jobs. */
  constructor(t: TestContext, url: string, folder: string = testFolder(t), redisUrl?: string) {
    this.#t = t;
    this.url = url;
    this.#redis = redisUrl === undefined ? {} : { redisUrl };
    this.folder = folder;
    this.ledger = join(this.folder, 'ledger');
  }

  start(language: Language, options: Partial<ConsumerProgram> = {}): RunningConsumer {
    const { url, ledger } = this;
    const program = { url, ledger, pool: 'p', slots: 4, leaseTtlMs: 15_000, graceMs: 10_000 };
    return startConsumer(this.#t, language, { ...program, ...this.#redis, ...options });
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const said = (await answer.json()) as T;
    assert.ok(answer.ok, JSON.stringify(said));
    return said;
  }

  /** Submits again until there is an answer: a brain may be dead meanwhile. */
  async submit(job_id: string, payload: Told | object, more: object = {}): Promise<void> {
    const body = { job_id, type: 'work', payload, wait_for_backend: true, ...more };
    await this.asked(() => this.call('POST', '/v2/tasks', body));
  }

  job(id: string): Promise<JobSeen> {
    return this.asked(() => this.call<JobSeen>('GET', `/v2/tasks/${id}`));
  }

  ended(id: string): Promise<JobSeen> {
    return this.jobWhen(id, ({ state }) => ENDED.includes(state));
  }

  async jobWhen(id: string, holds: (job: JobSeen) => boolean): Promise<JobSeen> {
    for (;;) {
      const job = await this.job(id);
      if (holds(job)) return job;
      await aMoment();
    }
  }

  async consumers(): Promise<readonly { name: string; state: string; held: number }[]> {
    return (
      await this.call<{ consumers: { name: string; state: string; held: number }[] }>('GET', '/v2/consumers')
    ).consumers;
  }

  async asked<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        await aMoment();
      }
    }
  }
}

export const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30));
