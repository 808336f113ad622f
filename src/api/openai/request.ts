/** What is asked in OpenAI's words, as the job that it becomes. */
import { createHash } from 'node:crypto';
import { type TProperties, type TSchema, Type } from 'typebox';
import { checker } from '../../kit/check.ts';
import { OrchdError } from '../../model/errors.ts';
import { MODEL } from '../../model/job-spec.ts';
import { MAX_TOKENS, type SubmitRequest } from '../../model/submit.ts';
import type { Call } from '../../wire/route.ts';
import { noSuchModel } from './models.ts';

const MAX_INPUTS = 2048;

const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]));

/** Fields that are not known here are the worker's business. */
const open = <P extends TProperties>(properties: P) =>
  Type.Object(properties, { additionalProperties: true });

const shared = {
  model: Type.String({ minLength: 1, maxLength: 1024 }),
  user: orNull(Type.String()),
};

const generating = {
  ...shared,
  stream: orNull(Type.Boolean()),
  stream_options: orNull(open({ include_usage: orNull(Type.Boolean()) })),
  n: orNull(Type.Integer({ minimum: 1, description: 'Only 1 is supported' })),
  max_tokens: orNull(Type.Integer({ minimum: 1, maximum: MAX_TOKENS })),
  temperature: orNull(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: orNull(Type.Number({ minimum: 0, maximum: 1 })),
  seed: orNull(Type.Integer()),
  stop: orNull(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 64 })])),
};

export const ChatRequest = open({
  ...generating,
  messages: Type.Array(open({ role: Type.String({ minLength: 1, maxLength: 64 }) }), {
    minItems: 1,
    maxItems: 10_000,
  }),
  max_completion_tokens: orNull(Type.Integer({ minimum: 1, maximum: MAX_TOKENS })),
  tools: orNull(Type.Array(Type.Record(Type.String(), Type.Unknown()), { maxItems: 1024 })),
  tool_choice: orNull(Type.Union([Type.String(), Type.Record(Type.String(), Type.Unknown())])),
  response_format: orNull(Type.Record(Type.String(), Type.Unknown())),
});

const Texts = Type.Union([Type.String(), Type.Array(Type.Unknown(), { minItems: 1, maxItems: MAX_INPUTS })]);

export const CompletionRequest = open({ ...generating, prompt: Texts });

export const EmbeddingRequest = open({
  ...shared,
  input: Texts,
  encoding_format: orNull(Type.Enum(['float', 'base64'])),
  dimensions: orNull(Type.Integer({ minimum: 1, maximum: 2 ** 20 })),
});

/** What of a request is for us, and what of it is for the worker. */
export interface Wanted {
  readonly model: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

export interface WantedEmbeddings extends Wanted {
  readonly inputs: number;
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | undefined;
}

const checkChat = checker(ChatRequest);
const checkCompletion = checker(CompletionRequest);
const checkEmbedding = checker(EmbeddingRequest);

export function wantedChat(body: unknown): Wanted {
  const request = checkChat(given(body));
  return wanted(request, request.messages, 'messages');
}

export function wantedCompletion(body: unknown): Wanted {
  const request = checkCompletion(given(body));
  const [prompt, ...more] = textsOf(request.prompt, 'prompt');
  if (more.length > 0) throw unsupported('more than one prompt in a request', 'prompt');
  return wanted(request, prompt, 'prompt');
}

export function wantedEmbeddings(body: unknown): WantedEmbeddings {
  const request = checkEmbedding(given(body));
  const inputs = textsOf(request.input, 'input');
  return {
    ...wanted(request, request.input, 'input'),
    inputs: inputs.length,
    encoding: request.encoding_format ?? 'float',
    dimensions: request.dimensions ?? undefined,
  };
}

interface Common {
  readonly model: string;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
  readonly n?: number | null;
}

/** For us, or set by the brain: none of it reaches the worker by this way. */
const OURS = new Set([
  'model',
  'stream',
  'stream_options',
  'user',
  'metadata',
  'n',
  'encoding_format',
  'max_completion_tokens',
  'job_id',
  'session_id',
]);

function wanted(request: Common, work: unknown, field: 'messages' | 'prompt' | 'input'): Wanted {
  if ((request.n ?? 1) > 1) throw unsupported('more than one answer to a request', 'n');
  const payload: Record<string, unknown> = { [field]: work };
  for (const [name, value] of Object.entries(request)) {
    // Null is OpenAI's word for: not given.
    if (!OURS.has(name) && value !== null && name !== field) payload[name] = value;
  }
  const { max_completion_tokens: most } = request as { max_completion_tokens?: number | null };
  if (field === 'messages' && typeof most === 'number') payload['max_tokens'] = most;
  const { model, stream, stream_options } = request;
  return { model, payload, stream: stream ?? false, includeUsage: stream_options?.include_usage ?? false };
}

/** Texts only: tokens of another model's making mean nothing here. */
function textsOf(given: string | readonly unknown[], field: string): readonly string[] {
  if (typeof given === 'string') return [given];
  if (given.every((each) => typeof each === 'string')) return given as readonly string[];
  if (given.every((each) => Number.isInteger(each) || Array.isArray(each)))
    throw unsupported('text that is given as numbers', field);
  throw new OrchdError('INVALID_PARAMS', `"${field}" must be a text or an array of texts`, { field });
}

const unsupported = (what: string, field: string): OrchdError =>
  new OrchdError('UNSUPPORTED', `${what} is not supported`, { field });

function given(body: unknown): unknown {
  if (body === undefined) throw new OrchdError('INVALID_PARAMS', 'the request has no body');
  return body;
}

const isModel = new RegExp(MODEL);
const KEY = /^[!-~](?:[ -~]{0,253}[!-~])?$/;

/** The job that a request becomes. With an Idempotency-Key its id follows from the key, and it outlives its caller. */
export function jobOf(call: Call, { model, payload }: Wanted): SubmitRequest {
  const session = header(call, 'x-orchd-session');
  const agent = header(call, 'x-orchd-agent');
  const key = header(call, 'idempotency-key');
  if (key !== undefined && !KEY.test(key))
    throw invalidHeader('Idempotency-Key', 'must be 1 to 255 printable characters');
  if (!isModel.test(model)) throw noSuchModel(model);
  return {
    type: 'inference',
    model,
    priority: priorityOf(call),
    on_disconnect: key === undefined ? 'cancel' : 'continue',
    // Answers in one piece are of the last try alone; streams leave out what a try repeats.
    after_output: 'retry',
    payload,
    ...(key !== undefined && { job_id: idOf(call, key) }),
    ...(session !== undefined && { session_id: session }),
    ...(agent !== undefined && { agent }),
  };
}

function priorityOf(call: Call): 'interactive' | 'batch' {
  const priority = header(call, 'x-orchd-priority') ?? 'interactive';
  if (priority === 'interactive' || priority === 'batch') return priority;
  throw invalidHeader('X-Orchd-Priority', 'must be interactive or batch');
}

/** Nobody reaches the job of another by guessing a key. */
function idOf({ identity: { tenant, name } }: Call, key: string): string {
  const hash = createHash('sha256').update(JSON.stringify([tenant, name, key]));
  return `idem-${hash.digest('hex')}`;
}

function header(call: Call, name: string): string | undefined {
  const value = call.headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

const invalidHeader = (field: string, what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"${field}" ${what}`, { field });
