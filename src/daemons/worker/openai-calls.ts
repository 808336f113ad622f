/** One call to a server with an OpenAI-compatible API: an inference request in, its answer out. */
import { OrchdError } from '../../model/errors.ts';
import type { InferenceRequest } from '../../model/inference.ts';
import { TRACEPARENT } from '../../model/trace.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { type ErrorReply, errorFromReply, streamError } from '../../wire/dialects/errors.ts';
import { fieldsOf, objectOf } from '../../wire/dialects/json.ts';
import { chatBody, DONE, embeddingRows, StreamedAnswer } from '../../wire/dialects/openai-chat.ts';
import { protocolError } from '../../wire/dialects/protocol-error.ts';
import { openAiUsage } from '../../wire/dialects/usage.ts';
import type { StreamReply, Target } from '../../wire/outbound.ts';
import { eachEvent } from '../../wire/sse-bytes.ts';
import type { RunContext } from '../execution/engine.ts';

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

/** The server's spans join the trace of the caller. */
const withTrace = (headers: OpenAiServer['headers'], { traceparent }: RunContext): OpenAiServer['headers'] =>
  traceparent === undefined ? headers : { ...headers, [TRACEPARENT]: traceparent };

/** How the errors of a server are read: what they mean depends on who runs it. */
export interface ErrorReading {
  ofReply(reply: ErrorReply): OrchdError;
  inStream(error: unknown, hasBegun: boolean): OrchdError;
}

const SERVER_ERRORS: ErrorReading = { ofReply: errorFromReply, inStream: streamError };

const stream = (
  server: OpenAiServer,
  request: InferenceRequest,
  context: RunContext,
): Promise<ExecutionResult> => {
  const path = request.work.kind === 'chat' ? '/v1/chat/completions' : '/v1/completions';
  return streamChat(server, { path, body: chatBody(request, server.model, STREAM_FIELDS) }, context);
};

/** The fields of a request for a stream that ends with the number of tokens. */
export const STREAM_FIELDS = { stream: true, stream_options: { include_usage: true } } as const;

/** Sends a request for a stream of chunks, and reads the answer from it. */
export async function streamChat(
  { target, headers }: Pick<OpenAiServer, 'target' | 'headers'>,
  { path, body, timeoutMs, idleMs }: ChatCall,
  context: RunContext,
  errors: ErrorReading = SERVER_ERRORS,
): Promise<ExecutionResult> {
  const reply = await target.stream({
    method: 'POST',
    path,
    headers: withTrace(headers, context),
    body: JSON.stringify(body),
    timeoutMs: timeoutMs ?? RESPONSE_TIMEOUT_MS,
    idleMs: idleMs ?? IDLE_TIMEOUT_MS,
    signal: context.signal,
  });
  if (reply.status !== 200) throw errors.ofReply({ ...reply, body: await readErrorBody(reply) });
  if (!isEventStream(reply)) {
    reply.close();
    throw protocolError('answered with something else than a stream');
  }
  const answer = new StreamedAnswer(context, errors.inStream);
  const ended = await readToEnd(reply, answer);
  if (!ended && !answer.finished) throw protocolError('ended its stream without an end', 'connection_lost');
  return answer.result();
}

export interface ChatCall {
  readonly path: string;
  readonly body: object;
  readonly timeoutMs?: number;
  readonly idleMs?: number;
}

export const isEventStream = ({ headers }: StreamReply): boolean =>
  headers['content-type']?.startsWith('text/event-stream') ?? false;

async function embed(
  server: OpenAiServer,
  request: InferenceRequest,
  context: RunContext,
): Promise<ExecutionResult> {
  const { status, headers, body } = await server.target.request({
    method: 'POST',
    path: '/v1/embeddings',
    headers: withTrace(server.headers, context),
    body: JSON.stringify(chatBody(request, server.model, { encoding_format: 'float' })),
    timeoutMs: RESPONSE_TIMEOUT_MS,
    maxBytes: MAX_EMBEDDINGS_BYTES,
    signal: context.signal,
  });
  if (status !== 200) throw errorFromReply({ status, headers, body: body.subarray(0, MAX_ERROR_BYTES) });
  const answer = objectOf(body.toString());
  const texts = request.work.kind === 'embeddings' ? request.work.texts : [];
  // Some servers say nothing about an output, because there is none.
  const usage = openAiUsage({ completion_tokens: 0, ...fieldsOf(answer['usage']) });
  return { embeddings: embeddingRows(answer['data'], texts.length), ...(usage && { usage }) };
}

/** Whether the server got the request, and its answer was lost: the connection broke, or it took too long. */
export const mayHaveRun = (error: unknown): boolean =>
  error instanceof OrchdError && LOST_ANSWERS.has(error.details.reason ?? '');

const LOST_ANSWERS: ReadonlySet<string> = new Set(['connection_lost', 'timeout', 'idle']);

/**
 * Reads up to `[DONE]`, and returns whether it came. A connection that breaks after the finish reason has lost nothing of
 * the answer.
 */
async function readToEnd(reply: StreamReply, answer: StreamedAnswer): Promise<boolean> {
  try {
    await eachEvent(
      reply,
      ({ data }) => {
        if (data === DONE) throw STOP_READING;
        answer.addChunk(data);
      },
      MAX_EVENT_CHARS,
    );
    return false;
  } catch (error) {
    if (error === STOP_READING) return true;
    if (answer.finished && mayHaveRun(error)) return false;
    throw error;
  }
}

/** The beginning of the body of an error. */
export async function readErrorBody(reply: StreamReply): Promise<Buffer> {
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
