/** What a client and an operator of a brain see: its answers, and the events of jobs as they come. */
import assert from 'node:assert/strict';
import type { JobView } from '../../src/model/http/jobs.ts';
import { readEvents } from '../../src/wire/sse.ts';

export const MIB = 2 ** 20;
/** What the demo engine says before it repeats what it heard. */
export const ABOUT =
  'This is the demo engine of orchd. It has no model, so it cannot think; it repeats what it hears. You said: ';

/** Far more than anything takes, also where many tests share the processor. */
const PATIENCE_MS = 60_000;
const LOOK_MS = 15;

/** Looks again and again until there is something, for a bounded time. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look().catch((error: unknown) => {
      if (error instanceof assert.AssertionError) throw error;
      return undefined;
    });
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) assert.fail(`it did not come about: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  readonly body: any;
}

export interface ClientEvent {
  readonly id: string;
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  readonly data: any;
}

/** The events of a job as one client has them. */
export class Follow {
  readonly events: ClientEvent[] = [];
  readonly #abort: AbortController;
  readonly #waiting = new Set<() => void>();
  readonly #reading: Promise<void>;
  #over = false;

  constructor(response: Response, abort: AbortController) {
    this.#abort = abort;
    this.#reading = this.#read(response);
  }

  /** Of the last attempt that was heard of: a reset begins anew. */
  get text(): string {
    let text = '';
    for (const { event, data } of this.events) {
      if (event === 'reset') text = '';
      if (event === 'token') text += data.t;
    }
    return text;
  }

  get tokens(): number {
    return this.events.filter(({ event }) => event === 'token').length;
  }

  get lastId(): string | undefined {
    return this.events.findLast(({ id }) => id !== '')?.id;
  }

  get last(): ClientEvent {
    const last = this.events.at(-1);
    assert.ok(last, 'nothing was heard');
    return last;
  }

  /** Settles when what was heard so far is enough. */
  async until(what: string, holds: (follow: this) => boolean): Promise<this> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => reject(new Error(`it was not heard: ${what}`)), PATIENCE_MS);
    const look = (): void => {
      if (holds(this)) resolve();
      else if (this.#over) reject(new Error(`it ended before it was heard: ${what} ${this.#tail()}`));
    };
    this.#waiting.add(look);
    look();
    await promise.finally(() => {
      clearTimeout(timer);
      this.#waiting.delete(look);
    });
    return this;
  }

  hears(event: string): Promise<this> {
    return this.until(event, ({ events }) => events.some((each) => each.event === event));
  }

  says(tokens: number): Promise<this> {
    return this.until(`${tokens} tokens`, (follow) => follow.tokens >= tokens);
  }

  /** The end or the error of the job. */
  async end(): Promise<ClientEvent> {
    await this.until('the end', ({ events }) => /^(end|error)$/.test(events.at(-1)?.event ?? ''));
    return this.last;
  }

  /** Settles when the connection is over, however. */
  async closed(): Promise<void> {
    await this.#reading;
  }

  async leave(): Promise<void> {
    this.#abort.abort();
    await this.#reading;
  }

  #tail(): string {
    return JSON.stringify(this.events.slice(-3));
  }

  async #read(response: Response): Promise<void> {
    try {
      for await (const { id, event, data } of readEvents(response.body as AsyncIterable<Uint8Array>)) {
        this.events.push({ id: id ?? '', event, data: JSON.parse(data) });
        for (const look of this.#waiting) look();
      }
    } catch {
      // The brain or the client has gone.
    }
    this.#over = true;
    for (const look of this.#waiting) look();
  }
}

/** Talks to a brain, or to one node of several. */
export class Client {
  url: string;

  constructor(url: string) {
    this.url = url;
  }

  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(this.url + path, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  }

  async done(method: string, path: string, body?: unknown): Promise<Answer['body']> {
    const answer = await this.ask(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** The status and code of a refusal. */
  async refused(method: string, path: string, body?: unknown): Promise<[number, string]> {
    const answer = await this.ask(method, path, body);
    return [answer.status, answer.body?.error?.code ?? JSON.stringify(answer.body)];
  }

  register(id: string, more: object = {}): Promise<Answer['body']> {
    const model = { model_id: id, model_ref: `demo:${id}`, vram_bytes: 10 * MIB, context_length: 4096 };
    return this.done('POST', '/v2/catalog/models', { ...model, ...more });
  }

  async submit(body: object): Promise<string> {
    const { job_id } = await this.done('POST', '/v2/tasks', body);
    return job_id;
  }

  job(id: string): Promise<JobView> {
    return this.done('GET', `/v2/tasks/${id}`);
  }

  becomes(id: string, state: string): Promise<JobView> {
    return eventually(`${id} is ${state}`, async () => {
      const job = await this.job(id);
      return job.state === state && job;
    });
  }

  async follow(id: string, lastEventId?: string): Promise<Follow> {
    const abort = new AbortController();
    const response = await fetch(`${this.url}/v2/tasks/${id}/events`, {
      headers: lastEventId === undefined ? {} : { 'last-event-id': lastEventId },
      signal: abort.signal,
    });
    assert.equal(response.status, 200);
    return new Follow(response, abort);
  }

  async run(body: object): Promise<Follow> {
    return this.follow(await this.submit(body));
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  async workers(pool = 'box'): Promise<any[]> {
    const { pools } = await this.done('GET', '/v2/pools');
    return pools.find(({ pool_id }: { pool_id: string }) => pool_id === pool)?.workers ?? [];
  }

  /** The one worker with this model, in this state as the brain sees it. */
  worker(model: string, status = 'ready', pool = 'box'): Promise<{ worker_id: string; why: string }> {
    return eventually(`a worker of ${model} is ${status}`, async () =>
      (await this.workers(pool)).find((each) => each.model_ref === model && each.status === status),
    );
  }
}
