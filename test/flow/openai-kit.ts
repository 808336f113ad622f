/** A model made of a function behind a real server, and the official client in front of it. */
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import OpenAI from 'openai';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';

/** What reaches the model: the payload of the job. */
export type Payload = Readonly<Record<string, unknown>>;

export type Model = (payload: Payload, context: FunctionContext) => unknown;

export interface Talk {
  readonly brain: HttpBrain;
  readonly client: OpenAI;
  /** What the model was given, in order. */
  readonly given: Payload[];
  job(id: string): Promise<JobView>;
}

export interface TalkOptions extends Omit<HttpBrainOptions, 'backends'> {
  readonly slots?: number;
  readonly apiKey?: string;
}

export async function talk(t: TestContext, model: Model, options: TalkOptions = {}): Promise<Talk> {
  const { slots = 4, apiKey = 'any-key', ...rest } = options;
  const given: Payload[] = [];
  const inference = (payload: Payload, context: FunctionContext): unknown => {
    given.push(payload);
    return model(payload, context);
  };
  const backend = { name: 'engine', slots, models: ['tiny', 'org/tiny'], types: { inference } };
  const brain = await httpBrain({ ...rest, backends: [backend as never] });
  t.after(() => brain.stop());
  return {
    brain,
    client: clientOf(brain.url, apiKey),
    given,
    job: (id) => brain.orchestrator.get(id),
  };
}

export const clientOf = (url: string, apiKey = 'any-key'): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

export const HELLO = [{ role: 'user' as const, content: 'Hello' }];
export const CHAT = { model: 'tiny', messages: HELLO };

export const WORDS = ['Good ', 'morning, ', 'Zürich 🦊\n'];

/** Says its words and ends well. */
export function saysWords(_payload: Payload, { emit }: FunctionContext): ExecutionResult {
  for (const word of WORDS) emit(word);
  const usage = { prompt_tokens: 7, completion_tokens: WORDS.length };
  return { text: WORDS.join(''), finish_reason: 'stop', usage };
}

/** A model that the test stops: it says its first word, then ends when it is let go or aborted. */
export class Held {
  readonly started: string[] = [];
  readonly aborted: string[] = [];
  readonly #opened = Promise.withResolvers<void>();
  readonly #first: string | undefined;

  constructor(first?: string) {
    this.#first = first;
  }

  readonly model: Model = async (_payload, { jobId, signal, emit }) => {
    this.started.push(jobId);
    if (this.#first !== undefined) emit(this.#first);
    await Promise.race([this.#opened.promise, once(signal, 'abort')]);
    if (signal.aborted) {
      this.aborted.push(jobId);
      throw new Error('aborted');
    }
    emit('end');
    return { text: `${this.#first ?? ''}end`, finish_reason: 'stop' } satisfies ExecutionResult;
  };

  letGo(): void {
    this.#opened.resolve();
  }
}

export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

export const post = (
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal && { signal }),
  });
