/** Converts a request in OpenAI's format into a job. */
import { createHash } from 'node:crypto';
import { OrchdError } from '../../model/errors.ts';
import type { ChatRequest, CompletionRequest, EmbeddingRequest } from '../../model/http/openai.ts';
import { MODEL } from '../../model/job-spec.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { AGENT, headerOf, IDEMPOTENCY_KEY, PRIORITY, SESSION } from '../../wire/headers.ts';
import type { Call } from '../../wire/route.ts';
import { noSuchModel } from './models.ts';

/** A request in OpenAI's format, split into the fields that the brain acts on and the payload for the worker. */
export interface ParsedRequest {
  readonly model: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

export interface ParsedEmbeddingRequest extends ParsedRequest {
  /** Number of texts, and so of embeddings in the answer. */
  readonly inputs: number;
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | undefined;
}

export const parseChatRequest = (request: ChatRequest): ParsedRequest =>
  parseCommon(request, request.messages, 'messages');

export function parseCompletionRequest(request: CompletionRequest): ParsedRequest {
  const [prompt, ...more] = textsOf(request.prompt, 'prompt');
  if (more.length > 0) throw unsupported('more than one prompt in a request', 'prompt');
  const parsed = parseCommon(request, prompt, 'prompt');
  // An upstream gets a prompt without this mark as a chat message (daemons/upstream/engine.ts).
  return { ...parsed, payload: { ...parsed.payload, raw_prompt: true } };
}

export function parseEmbeddingRequest(request: EmbeddingRequest): ParsedEmbeddingRequest {
  const inputs = textsOf(request.input, 'input');
  return {
    ...parseCommon(request, request.input, 'input'),
    inputs: inputs.length,
    encoding: request.encoding_format ?? 'float',
    dimensions: request.dimensions ?? undefined,
  };
}

interface CommonFields {
  readonly model: string;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
  readonly n?: number | null;
}

/** Request fields that the brain reads or sets itself; they are left out of the payload. */
const BRAIN_FIELDS = new Set([
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

function parseCommon(
  request: CommonFields,
  input: unknown,
  field: 'messages' | 'prompt' | 'input',
): ParsedRequest {
  if ((request.n ?? 1) > 1) throw unsupported('more than one answer to a request', 'n');
  const payload: Record<string, unknown> = { [field]: input };
  for (const [name, value] of Object.entries(request)) {
    // OpenAI's clients send null for a field that is not set.
    if (!BRAIN_FIELDS.has(name) && value !== null && name !== field) payload[name] = value;
  }
  const { max_completion_tokens: maxTokens } = request as { max_completion_tokens?: number | null };
  if (field === 'messages' && typeof maxTokens === 'number') payload['max_tokens'] = maxTokens;
  const { model, stream, stream_options } = request;
  return { model, payload, stream: stream ?? false, includeUsage: stream_options?.include_usage ?? false };
}

/** Accepts only texts: token numbers from another model's tokenizer mean nothing to our models. */
function textsOf(input: string | readonly unknown[], field: string): readonly string[] {
  if (typeof input === 'string') return [input];
  if (input.every((each) => typeof each === 'string')) return input as readonly string[];
  if (input.every((each) => Number.isInteger(each) || Array.isArray(each)))
    throw unsupported('input given as token numbers', field);
  throw new OrchdError('INVALID_PARAMS', `"${field}" must be a text or an array of texts`, { field });
}

export const unsupported = (what: string, field: string): OrchdError =>
  new OrchdError('UNSUPPORTED', `${what} is not supported`, { field });

const modelName = new RegExp(MODEL);
const IDEMPOTENCY_KEY_FORM = /^[!-~](?:[ -~]{0,253}[!-~])?$/;

/**
 * Builds the job for a request. With an Idempotency-Key the job id is derived from the key, so that a repeated request
 * finds the same job, and the job goes on when its caller disconnects.
 */
export function submitRequestOf(call: Call, { model, payload }: ParsedRequest): SubmitRequest {
  const session = headerOf(call.headers, SESSION);
  const agent = headerOf(call.headers, AGENT);
  const key = headerOf(call.headers, IDEMPOTENCY_KEY);
  if (key !== undefined && !IDEMPOTENCY_KEY_FORM.test(key))
    throw invalidHeader('Idempotency-Key', 'must be 1 to 255 printable characters');
  if (!modelName.test(model)) throw noSuchModel(model);
  return {
    type: 'inference',
    model,
    priority: priorityOf(call),
    on_disconnect: key === undefined ? 'cancel' : 'continue',
    // Retrying after output is safe: an unstreamed answer holds the last attempt only, a stream omits repeated text.
    after_output: 'retry',
    payload,
    ...(key !== undefined && { job_id: idempotentJobId(call, key) }),
    ...(session !== undefined && { session_id: session }),
    ...(agent !== undefined && { agent }),
  };
}

function priorityOf(call: Call): 'interactive' | 'batch' {
  const priority = headerOf(call.headers, PRIORITY) ?? 'interactive';
  if (priority === 'interactive' || priority === 'batch') return priority;
  throw invalidHeader('X-Orchd-Priority', 'must be interactive or batch');
}

/** Hashes the caller together with the key: a caller cannot reach another caller's job by guessing its key. */
function idempotentJobId({ identity: { tenant, name } }: Call, key: string): string {
  const hash = createHash('sha256').update(JSON.stringify([tenant, name, key]));
  return `idem-${hash.digest('hex')}`;
}

const invalidHeader = (field: string, what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"${field}" ${what}`, { field });
