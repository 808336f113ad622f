/** The engine that passes requests to a server with an OpenAI-compatible API, which it can start itself. */

import type { Env } from '../../kit/env/env.ts';
import type { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { Outbound, type StreamReply, type Target } from '../../wire/outbound.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';
import type { Engine, EngineInfo, RunContext } from './engine.ts';
import type { InferenceRequest } from './inference-request.ts';
import { objectOf, StreamedAnswer, usageOf } from './openai-answer.ts';
import { errorFromReply, protocolError } from './openai-errors.ts';
import { awaitHealth, contextOf } from './openai-health.ts';
import { Upstream } from './openai-upstream.ts';

export interface OpenAiOptions {
  readonly env: Env;
  /** The server's name of the model. */
  readonly model: string;
  /** The base URL without `/v1`. */
  readonly url: string | undefined;
  /** The command that starts the server, with placeholders: see upstreamArgv. */
  readonly command: readonly string[] | undefined;
  readonly key: Secret | undefined;
  readonly slots: number;
  readonly contextLength: number | undefined;
}

/** Long, because a server may queue a request behind others and evaluates the prompt before its first byte. */
const RESPONSE_TIMEOUT_MS = 600_000;
const IDLE_TIMEOUT_MS = 300_000;
const MAX_EVENT_CHARS = 4 * 2 ** 20;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_EMBEDDINGS_BYTES = 64 * 2 ** 20;

/** The fields of a request that are passed on; the others are not for the server. */
const PASSED_FIELDS = [
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

/** Thrown to stop reading a stream of which nothing more is needed. */
const STOP_READING = Symbol('stop reading');

export class OpenAiEngine implements Engine {
  readonly #options: OpenAiOptions;
  readonly #outbound: Outbound;
  readonly #ended = Promise.withResolvers<OrchdError>();
  #target: Target | undefined;
  #upstream: Upstream | undefined;
  #stopping = false;

  constructor(options: OpenAiOptions) {
    this.#options = options;
    this.#outbound = new Outbound({ timers: options.env.timers });
  }

  get ended(): Promise<OrchdError> {
    return this.#ended.promise;
  }

  async load(signal: AbortSignal): Promise<EngineInfo> {
    const { env, model, url, command, slots, contextLength } = this.#options;
    if (command) {
      this.#upstream = await Upstream.start(env, command, { model, slots, contextLength });
      void this.#upstream.ended.then((error) => this.#stopping || this.#ended.resolve(error));
    }
    const port = this.#upstream?.port;
    const base = url ?? `http://127.0.0.1:${port}`;
    this.#target = this.#outbound.to(base.replaceAll('{port}', String(port)));
    const target = this.#target;
    await awaitHealth({ env, target, headers: this.#headers(), ended: this.#upstream?.ended, signal });
    const found = await contextOf(target, this.#headers(), model);
    return {
      model,
      // A server that was started here uses a device of this machine; how much of it, it does not say.
      vramBytes: command ? undefined : 0,
      slots,
      contextLength: contextLength ?? found ?? 0,
      features: ['chat', 'completions', 'embeddings', 'tools', 'json_schema'],
    };
  }

  /**
   * A server that got the request and did not answer it may have done the work, and may charge for it: such an outcome
   * is unknown, and not failed.
   */
  async run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    try {
      return await (request.work.kind === 'embeddings'
        ? this.#embed(request, context)
        : this.#stream(request, context));
    } catch (error) {
      if (!mayHaveRun(error)) throw error;
      throw new OrchdError('UNKNOWN_OUTCOME', (error as OrchdError).message, {}, { cause: error });
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#outbound.close();
    await this.#upstream?.stop();
  }

  async #stream(request: InferenceRequest, { signal, emit }: RunContext): Promise<ExecutionResult> {
    const reply = await this.#server().stream({
      method: 'POST',
      path: request.work.kind === 'chat' ? '/v1/chat/completions' : '/v1/completions',
      headers: this.#headers(),
      body: this.#body(request, { stream: true, stream_options: { include_usage: true } }),
      timeoutMs: RESPONSE_TIMEOUT_MS,
      idleMs: IDLE_TIMEOUT_MS,
      signal,
    });
    if (reply.status !== 200) throw errorFromReply(reply.status, reply.headers, await readErrorBody(reply));
    if (!reply.headers['content-type']?.startsWith('text/event-stream')) {
      reply.close();
      throw protocolError('answered with something else than a stream');
    }
    const answer = new StreamedAnswer(emit);
    const ended = await readToEnd(reply, answer);
    if (!ended && !answer.finished) throw protocolError('ended its stream without an end', 'connection_lost');
    return answer.result();
  }

  async #embed(request: InferenceRequest, { signal }: RunContext): Promise<ExecutionResult> {
    const { status, headers, body } = await this.#server().request({
      method: 'POST',
      path: '/v1/embeddings',
      headers: this.#headers(),
      body: this.#body(request, { encoding_format: 'float' }),
      timeoutMs: RESPONSE_TIMEOUT_MS,
      maxBytes: MAX_EMBEDDINGS_BYTES,
      signal,
    });
    if (status !== 200) throw errorFromReply(status, headers, body.subarray(0, MAX_ERROR_BYTES));
    const answer = objectOf(body.toString());
    const texts = request.work.kind === 'embeddings' ? request.work.texts : [];
    const usage = usageOf(answer['usage']);
    return { embeddings: rowsOf(answer['data'], texts.length), ...(usage && { usage }) };
  }

  #server(): Target {
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

  #body({ body }: InferenceRequest, more: object): string {
    const fields = body as Readonly<Record<string, unknown>>;
    const passed = PASSED_FIELDS.flatMap((name) => {
      const value = fields[name];
      return value === undefined || value === null ? [] : [[name, value] as const];
    });
    return JSON.stringify({ ...Object.fromEntries(passed), model: this.#options.model, ...more });
  }
}

/** Whether the server got the request, and its answer was lost: the connection broke, or it took too long. */
const mayHaveRun = (error: unknown): boolean =>
  error instanceof OrchdError && LOST_ANSWERS.has(error.details.reason ?? '');

const LOST_ANSWERS: ReadonlySet<string> = new Set(['connection_lost', 'timeout', 'idle']);

/** Reads up to `[DONE]`, and returns whether it came. */
async function readToEnd(reply: StreamReply, answer: StreamedAnswer): Promise<boolean> {
  try {
    await eachEvent(
      reply,
      ({ data }) => {
        if (data === '[DONE]') throw STOP_READING;
        answer.addChunk(data);
      },
      MAX_EVENT_CHARS,
    );
    return false;
  } catch (error) {
    if (error === STOP_READING) return true;
    throw error;
  }
}

async function readErrorBody(reply: StreamReply): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    await reply.read((piece) => {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > MAX_ERROR_BYTES) throw STOP_READING;
    });
  } catch (error) {
    if (error !== STOP_READING) return Buffer.alloc(0);
  }
  return Buffer.concat(pieces);
}

function rowsOf(data: unknown, count: number): number[][] {
  if (!Array.isArray(data) || data.length !== count) throw protocolError('sent another number of embeddings');
  const rows = new Array<number[]>(count);
  data.forEach((item: unknown, at) => {
    const { embedding, index } = (item ?? {}) as { embedding?: unknown; index?: unknown };
    if (!Array.isArray(embedding) || !embedding.every((value) => Number.isFinite(value))) {
      throw protocolError('sent an embedding that is not a list of numbers');
    }
    rows[Number.isInteger(index) ? (index as number) : at] = embedding as number[];
  });
  if (Object.keys(rows).length !== count || rows.length !== count) {
    throw protocolError('sent embeddings out of their places');
  }
  return rows;
}
