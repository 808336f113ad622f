/** From a request in OpenAI's format to the job that it becomes. */
import { createHash } from 'node:crypto';
import { OrchdError } from '../../model/errors.ts';
import type { ChatRequest, CompletionRequest, EmbeddingRequest } from '../../model/http/openai.ts';
import { MODEL } from '../../model/job-spec.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { AGENT, headerOf, IDEMPOTENCY_KEY, PRIORITY, SESSION } from '../../wire/headers.ts';
import type { Call } from '../../wire/route.ts';
import { noSuchModel } from './models.ts';

/** A request split in two: what the brain acts on, and the payload for the worker. */
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

export const wantedChat = (request: ChatRequest): Wanted => wanted(request, request.messages, 'messages');

export function wantedCompletion(request: CompletionRequest): Wanted {
  const [prompt, ...more] = textsOf(request.prompt, 'prompt');
  if (more.length > 0) throw unsupported('more than one prompt in a request', 'prompt');
  return wanted(request, prompt, 'prompt');
}

export function wantedEmbeddings(request: EmbeddingRequest): WantedEmbeddings {
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

/** Fields that the brain reads or sets itself; they are left out of the payload. */
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

function wanted(request: Common, work: unknown, field: 'messages' | 'prompt' | 'input'): Wanted {
  if ((request.n ?? 1) > 1) throw unsupported('more than one answer to a request', 'n');
  const payload: Record<string, unknown> = { [field]: work };
  for (const [name, value] of Object.entries(request)) {
    // OpenAI's clients send null for a field that is not set.
    if (!BRAIN_FIELDS.has(name) && value !== null && name !== field) payload[name] = value;
  }
  const { max_completion_tokens: most } = request as { max_completion_tokens?: number | null };
  if (field === 'messages' && typeof most === 'number') payload['max_tokens'] = most;
  const { model, stream, stream_options } = request;
  return { model, payload, stream: stream ?? false, includeUsage: stream_options?.include_usage ?? false };
}

/** Only texts are accepted: token numbers of another model's tokenizer mean nothing to ours. */
function textsOf(given: string | readonly unknown[], field: string): readonly string[] {
  if (typeof given === 'string') return [given];
  if (given.every((each) => typeof each === 'string')) return given as readonly string[];
  if (given.every((each) => Number.isInteger(each) || Array.isArray(each)))
    throw unsupported('text that is given as numbers', field);
  throw new OrchdError('INVALID_PARAMS', `"${field}" must be a text or an array of texts`, { field });
}

const unsupported = (what: string, field: string): OrchdError =>
  new OrchdError('UNSUPPORTED', `${what} is not supported`, { field });

const isModel = new RegExp(MODEL);
const KEY = /^[!-~](?:[ -~]{0,253}[!-~])?$/;

/** The job that a request becomes. With an Idempotency-Key its id follows from the key, and it outlives its caller. */
export function jobOf(call: Call, { model, payload }: Wanted): SubmitRequest {
  const session = headerOf(call.headers, SESSION);
  const agent = headerOf(call.headers, AGENT);
  const key = headerOf(call.headers, IDEMPOTENCY_KEY);
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
  const priority = headerOf(call.headers, PRIORITY) ?? 'interactive';
  if (priority === 'interactive' || priority === 'batch') return priority;
  throw invalidHeader('X-Orchd-Priority', 'must be interactive or batch');
}

/** Nobody reaches the job of another by guessing a key. */
function idOf({ identity: { tenant, name } }: Call, key: string): string {
  const hash = createHash('sha256').update(JSON.stringify([tenant, name, key]));
  return `idem-${hash.digest('hex')}`;
}

const invalidHeader = (field: string, what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"${field}" ${what}`, { field });
