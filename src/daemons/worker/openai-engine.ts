/** In front of any server that speaks OpenAI's language, which the worker may have started itself. */

import type { Env } from '../../kit/env/env.ts';
import type { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { Outbound, type StreamReply, type Target } from '../../wire/outbound.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';
import type { Ask } from './ask.ts';
import type { Engine, EngineInfo, RunContext } from './engine.ts';
import { Answer, objectOf, usageOf } from './openai-answer.ts';
import { protocolError, refusalOf } from './openai-errors.ts';
import { awaitHealth, contextOf } from './openai-health.ts';
import { Upstream } from './openai-upstream.ts';

export interface OpenAiOptions {
  readonly env: Env;
  /** What the server calls the model. */
  readonly model: string;
  /** Up to and without `/v1`. */
  readonly url: string | undefined;
  /** Starts the server; `{port}` and `{model}` are filled in. */
  readonly command: readonly string[] | undefined;
  readonly key: Secret | undefined;
  readonly slots: number;
  readonly contextLength: number | undefined;
}

/** A server may keep a request waiting while others run, and read a long prompt before its first byte. */
const HEAD_MS = 600_000;
const IDLE_MS = 300_000;
const MAX_EVENT_CHARS = 4 * 2 ** 20;
const MAX_REFUSAL_BYTES = 64 * 1024;
const MAX_EMBEDDINGS_BYTES = 64 * 2 ** 20;

/** What is handed on of a job; the rest is between the brain and its callers. */
const PASSED_ON = [
  'prompt',
  'messages',
  'input',
  'max_tokens',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'reasoning_effort',
] as const;

/** The stream has said all it has to say. */
const DONE = Symbol('done');

export class OpenAiEngine implements Engine {
  readonly #options: OpenAiOptions;
  readonly #outbound: Outbound;
  readonly #gone = Promise.withResolvers<OrchdError>();
  #target: Target | undefined;
  #upstream: Upstream | undefined;
  #stopping = false;

  constructor(options: OpenAiOptions) {
    this.#options = options;
    this.#outbound = new Outbound({ timers: options.env.timers });
  }

  get gone(): Promise<OrchdError> {
    return this.#gone.promise;
  }

  async load(signal: AbortSignal): Promise<EngineInfo> {
    const { env, model, url, command, slots, contextLength } = this.#options;
    if (command) {
      this.#upstream = await Upstream.start(env, command, model);
      void this.#upstream.gone.then((error) => this.#stopping || this.#gone.resolve(error));
    }
    const port = this.#upstream?.port;
    const where = url ?? `http://127.0.0.1:${port}`;
    this.#target = this.#outbound.to(where.replaceAll('{port}', String(port)));
    const target = this.#target;
    await awaitHealth({ env, target, headers: this.#headers(), gone: this.#upstream?.gone, signal });
    const found = await contextOf(target, this.#headers(), model);
    return {
      model,
      vramBytes: 0,
      slots,
      contextLength: contextLength ?? found ?? 0,
      features: ['chat', 'completions', 'embeddings', 'tools', 'json_schema'],
    };
  }

  run(ask: Ask, context: RunContext): Promise<ExecutionResult> {
    return ask.work.kind === 'embeddings' ? this.#embed(ask, context) : this.#stream(ask, context);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#outbound.close();
    await this.#upstream?.stop();
  }

  async #stream(ask: Ask, { signal, emit }: RunContext): Promise<ExecutionResult> {
    const reply = await this.#reach().stream({
      method: 'POST',
      path: ask.work.kind === 'chat' ? '/v1/chat/completions' : '/v1/completions',
      headers: this.#headers(),
      body: this.#body(ask, { stream: true, stream_options: { include_usage: true } }),
      timeoutMs: HEAD_MS,
      idleMs: IDLE_MS,
      signal,
    });
    if (reply.status !== 200) throw refusalOf(reply.status, reply.headers, await refusalIn(reply));
    if (!reply.headers['content-type']?.startsWith('text/event-stream')) {
      reply.close();
      throw protocolError('answered with something else than a stream');
    }
    const answer = new Answer(emit);
    const ended = await readToEnd(reply, answer);
    if (!ended && !answer.finished) throw protocolError('ended its stream without an end');
    return answer.result();
  }

  async #embed(ask: Ask, { signal }: RunContext): Promise<ExecutionResult> {
    const { status, headers, body } = await this.#reach().request({
      method: 'POST',
      path: '/v1/embeddings',
      headers: this.#headers(),
      body: this.#body(ask, { encoding_format: 'float' }),
      timeoutMs: HEAD_MS,
      maxBytes: MAX_EMBEDDINGS_BYTES,
      signal,
    });
    if (status !== 200) throw refusalOf(status, headers, body.subarray(0, MAX_REFUSAL_BYTES));
    const answer = objectOf(body.toString());
    const texts = ask.work.kind === 'embeddings' ? ask.work.texts : [];
    const usage = usageOf(answer['usage']);
    return { embeddings: rowsOf(answer['data'], texts.length), ...(usage && { usage }) };
  }

  #reach(): Target {
    if (this.#target) return this.#target;
    throw new OrchdError('WORKER_BUSY', 'the upstream is not ready');
  }

  #headers(): Record<string, string> {
    const { key } = this.#options;
    return {
      'content-type': 'application/json',
      ...(key && { authorization: `Bearer ${key.reveal()}` }),
    };
  }

  #body({ body }: Ask, more: object): string {
    const given = body as Readonly<Record<string, unknown>>;
    const passed = PASSED_ON.flatMap((name) => {
      const value = given[name];
      return value === undefined || value === null ? [] : [[name, value] as const];
    });
    return JSON.stringify({ ...Object.fromEntries(passed), model: this.#options.model, ...more });
  }
}

/** Whether it said that this was all. What comes after that is not read. */
async function readToEnd(reply: StreamReply, answer: Answer): Promise<boolean> {
  try {
    await eachEvent(
      reply,
      ({ data }) => {
        if (data === '[DONE]') throw DONE;
        answer.take(data);
      },
      MAX_EVENT_CHARS,
    );
    return false;
  } catch (error) {
    if (error === DONE) return true;
    throw error;
  }
}

async function refusalIn(reply: StreamReply): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    await reply.read((piece) => {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > MAX_REFUSAL_BYTES) throw DONE;
    });
  } catch (error) {
    if (error !== DONE) return Buffer.alloc(0);
  }
  return Buffer.concat(pieces);
}

function rowsOf(data: unknown, count: number): number[][] {
  if (!Array.isArray(data) || data.length !== count) throw protocolError('sent another number of embeddings');
  const rows = new Array<number[]>(count);
  data.forEach((item: unknown, at) => {
    const { embedding, index } = (item ?? {}) as { embedding?: unknown; index?: unknown };
    if (!Array.isArray(embedding) || !embedding.every((value) => Number.isFinite(value))) {
      throw protocolError('sent an embedding that is no list of numbers');
    }
    rows[Number.isInteger(index) ? (index as number) : at] = embedding as number[];
  });
  if (Object.keys(rows).length !== count || rows.length !== count) {
    throw protocolError('sent embeddings out of their places');
  }
  return rows;
}
