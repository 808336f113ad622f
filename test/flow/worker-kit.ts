/** Real workers in processes of their own, and a brain's side of the line that says exactly what a test wants. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { readEvents } from '../../src/wire/sse.ts';
import { type HowToRun, type Running, start } from './cli-process.ts';

export interface WorkerEvent {
  readonly n: number;
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  readonly data: any;
}

export interface Said {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what came
  readonly body: any;
}

/** The events of an answer as they come. */
export class Events {
  readonly #response: Response;
  readonly #events: AsyncGenerator<WorkerEvent>;
  readonly status: number;

  constructor(response: Response) {
    this.#response = response;
    this.status = response.status;
    this.#events = eventsOf(response);
  }

  async next(): Promise<WorkerEvent> {
    const { value, done } = await this.#events.next();
    assert.ok(!done, 'the stream has ended');
    return value;
  }

  /** Up to the first of this kind. */
  async until(event: string): Promise<WorkerEvent> {
    for (;;) {
      const each = await this.next();
      if (each.event === event) return each;
    }
  }

  async rest(): Promise<WorkerEvent[]> {
    const all: WorkerEvent[] = [];
    for await (const event of this.#events) all.push(event);
    return all;
  }

  /** The body of an answer that is no stream. */
  json(): Promise<Said['body']> {
    return this.#response.json();
  }
}

async function* eventsOf(response: Response): AsyncGenerator<WorkerEvent> {
  for await (const { id, event, data } of readEvents(response.body as AsyncIterable<Uint8Array>)) {
    yield { n: Number(id), event, data: JSON.parse(data) };
  }
}

export interface WhoAsks {
  readonly owner?: string;
  readonly epoch?: number;
  readonly bearer?: string | undefined;
  readonly registry?: string | undefined;
  readonly signal?: AbortSignal;
}

/** A brain's line to one worker. */
export class Line {
  readonly url: string;
  readonly #who: WhoAsks;

  constructor(url: string, who: WhoAsks = {}) {
    this.url = url;
    this.#who = who;
  }

  as(who: WhoAsks): Line {
    return new Line(this.url, { ...this.#who, ...who });
  }

  fetch(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const { owner = 'brain', epoch = 1, bearer, registry, signal } = this.#who;
    return fetch(this.url + path, {
      method,
      headers: {
        'x-orchd-owner': owner,
        'x-orchd-epoch': String(epoch),
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(registry !== undefined && { 'x-orchd-registry': registry }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  }

  async ask(method: string, path: string, body?: unknown): Promise<Said> {
    const response = await this.fetch(method, path, body);
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json');
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
  }

  async execute(token: string, body: object, headers: Record<string, string> = {}): Promise<Events> {
    const job = token.slice(0, token.lastIndexOf(':'));
    return new Events(
      await this.fetch(
        'POST',
        '/execute',
        { job_id: job, ...body },
        { 'idempotency-key': token, ...headers },
      ),
    );
  }

  /** Runs it to its end and returns the last event. */
  async outcome(token: string, body: object): Promise<WorkerEvent> {
    const events = await (await this.execute(token, body)).rest();
    return events.at(-1) as WorkerEvent;
  }

  async events(token: string, from = 0): Promise<Events> {
    const path = `/executions/${encodeURIComponent(token)}/events?from=${from}`;
    return new Events(await this.fetch('GET', path));
  }

  state = (token: string): Promise<Said> => this.ask('GET', `/executions/${encodeURIComponent(token)}`);
  list = (): Promise<Said> => this.ask('GET', '/executions');
  ack = (token: string): Promise<Said> => this.ask('POST', `/executions/${encodeURIComponent(token)}/ack`);
  health = (): Promise<Said> => this.ask('GET', '/health');

  cancel(token: string, how?: 'end' | 'bury'): Promise<Said> {
    const job = token.slice(0, token.lastIndexOf(':'));
    return this.ask('POST', '/cancel', { job_id: job, token, ...(how && { how }) });
  }
}

export interface WorkerProcess extends Running {
  readonly url: string;
  readonly line: Line;
  kill(): Promise<void>;
}

type Ends = Pick<TestContext, 'after'> | { after(run: () => Promise<void>): void };

/** A worker that listens; it is killed when the test ends. */
export async function startWorker(
  t: Ends,
  words: readonly string[] = [],
  how: HowToRun = {},
): Promise<WorkerProcess> {
  const running = start(['worker', '--port', '0', ...words], how);
  const kill = async (): Promise<void> => {
    running.child.kill('SIGKILL');
    await running.ended;
  };
  t.after(kill);
  const said = await running.saw('err', /listens on \S+\n/);
  const url = /listens on (\S+)\n/.exec(said)?.[1] as string;
  return { ...running, url, line: new Line(url), kill };
}

/** The same, once it has its model. */
export async function readyWorker(
  t: Ends,
  words: readonly string[] = [],
  how: HowToRun = {},
): Promise<WorkerProcess> {
  const worker = await startWorker(t, words, how);
  await worker.saw('err', /^ready: /m);
  return worker;
}
