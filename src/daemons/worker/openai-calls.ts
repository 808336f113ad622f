/** One call to a server with an OpenAI-compatible API: an inference request in, its answer out. */
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { StreamReply, Target } from '../../wire/outbound.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';
import type { RunContext } from '../execution/engine.ts';
import type { InferenceRequest } from '../execution/inference-request.ts';
import { objectOf, StreamedAnswer, usageOf } from './openai-answer.ts';
import { errorFromReply, protocolError } from './openai-errors.ts';

/** The server of a call, and the model there. */
export interface OpenAiServer {
  readonly target: Target;
  readonly headers: Readonly<Record<string, string>>;
  /** The server's name of the model. */
  readonly model: string;
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

/**
 * A server that got the request and did not answer it may have done the work, and may charge for it: such an outcome
 * is unknown, and not failed.
 */
export async function callOpenAi(
  server: OpenAiServer,
  request: InferenceRequest,
  context: RunContext,
): Promise<ExecutionResult> {
  try {
    return await (request.work.kind === 'embeddings'
      ? embed(server, request, context)
      : stream(server, request, context));
  } catch (error) {
    if (!mayHaveRun(error)) throw error;
    throw new OrchdError('UNKNOWN_OUTCOME', (error as OrchdError).message, {}, { cause: error });
  }
}

/** The headers of a call. */
export const openAiHeaders = (key: string | undefined): Record<string, string> => ({
  'content-type': 'application/json',
  ...(key !== undefined && { authorization: `Bearer ${key}` }),
});

async function stream(
  server: OpenAiServer,
  request: InferenceRequest,
  { signal, emit }: RunContext,
): Promise<ExecutionResult> {
  const reply = await server.target.stream({
    method: 'POST',
    path: request.work.kind === 'chat' ? '/v1/chat/completions' : '/v1/completions',
    headers: server.headers,
    body: bodyOf(server, request, { stream: true, stream_options: { include_usage: true } }),
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

async function embed(
  server: OpenAiServer,
  request: InferenceRequest,
  { signal }: RunContext,
): Promise<ExecutionResult> {
  const { status, headers, body } = await server.target.request({
    method: 'POST',
    path: '/v1/embeddings',
    headers: server.headers,
    body: bodyOf(server, request, { encoding_format: 'float' }),
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

function bodyOf({ model }: OpenAiServer, { body }: InferenceRequest, more: object): string {
  const fields = body as Readonly<Record<string, unknown>>;
  const passed = PASSED_FIELDS.flatMap((name) => {
    const value = fields[name];
    return value === undefined || value === null ? [] : [[name, value] as const];
  });
  return JSON.stringify({ ...Object.fromEntries(passed), model, ...more });
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
