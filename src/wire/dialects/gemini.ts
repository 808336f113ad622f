/**
 * Requests in the dialect of Gemini's `models/{model}:generateContent` and `:streamGenerateContent`, which have the same
 * body. System messages are taken out of the conversation and become its `systemInstruction`.
 */
import { OrchdError } from '../../model/errors.ts';
import type { InferenceRequest } from '../../model/inference.ts';
import { chatMessages, type GivenMessage, refuseFields, unsupported } from './as-chat.ts';
import { type ContentPart, partsOf } from './content.ts';
import { fieldsOf, isObject, type JsonObject, listOf, textOr } from './json.ts';

/** Fields of our requests that this API has nothing for. */
const NOT_THERE = ['repetition_penalty', 'logit_bias', 'min_p'] as const;

/** The types of inline data that the models read; everything else is refused before it is sent. */
const IMAGE_TYPES: ReadonlySet<string> = new Set([
  'image/jpeg',
  'image/png',
  'image/webp',
  'image/heic',
  'image/heif',
]);
const FILE_TYPES: ReadonlySet<string> = new Set(['application/pdf', 'text/plain']);
const EFFORTS: ReadonlySet<unknown> = new Set(['minimal', 'low', 'medium', 'high']);

/** The body of a request. The model is in the path, and so is whether the answer is streamed. */
export function geminiBody(request: InferenceRequest): JsonObject {
  refuseFields(request, NOT_THERE);
  const { tools, body } = request;
  if (tools.length > 0 && (body as JsonObject)['parallel_tool_calls'] === false)
    throw unsupported('one call at a time', 'parallel_tool_calls');
  const messages = chatMessages(request);
  const system = messages.filter(({ role }) => role === 'system').flatMap(textParts);
  const config = generationConfig(request);
  return {
    contents: contentsOf(messages.filter(({ role }) => role !== 'system')),
    ...(system.length > 0 && { systemInstruction: { parts: system } }),
    ...(tools.length > 0 && {
      tools: [{ functionDeclarations: tools.map(declarationOf) }],
      toolConfig: { functionCallingConfig: choiceOf(request) },
    }),
    ...(Object.keys(config).length > 0 && { generationConfig: config }),
  };
}

/** `candidateCount` is never sent: one answer is the default, and others would be paid. */
function generationConfig(request: InferenceRequest): JsonObject {
  const { body, maxTokens, temperature, topP, seed, stop, format } = request;
  const {
    top_k: topK,
    presence_penalty: presence,
    frequency_penalty: frequency,
  } = withoutNulls(body as JsonObject);
  const thinking = thinkingConfig(body as JsonObject);
  return {
    ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(topK !== undefined && { topK }),
    ...(seed !== undefined && { seed }),
    ...(stop.length > 0 && { stopSequences: stop }),
    ...(presence !== undefined && { presencePenalty: presence }),
    ...(frequency !== undefined && { frequencyPenalty: frequency }),
    ...(format !== 'any' && { responseMimeType: 'application/json' }),
    // `responseSchema` would be a dialect of its own; this field takes JSON Schema.
    ...(isObject(format) && { responseJsonSchema: format.schema }),
    ...(thinking && { thinkingConfig: thinking }),
  };
}

const withoutNulls = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));

/** `thinkingLevel` is for models since Gemini 3, `thinkingBudget` for those before; the API refuses both together. */
function thinkingConfig(body: JsonObject): JsonObject | undefined {
  const effort = body['reasoning_effort'] ?? undefined;
  const { type, budget_tokens: budget } = fieldsOf(body['thinking']);
  if (effort !== undefined && !EFFORTS.has(effort)) throw unsupported('this effort', 'reasoning_effort');
  if (effort !== undefined && type !== undefined)
    throw unsupported('"reasoning_effort" beside "thinking"', 'reasoning_effort');
  if (type === 'disabled') return { thinkingBudget: 0 };
  // The model chooses how long it thinks.
  if (type === 'adaptive') return { thinkingBudget: -1, includeThoughts: true };
  if (type === 'enabled') return { thinkingBudget: budget, includeThoughts: true };
  return effort === undefined ? undefined : { thinkingLevel: effort, includeThoughts: true };
}

function declarationOf({ name, description, parameters }: InferenceRequest['tools'][number]): JsonObject {
  return {
    name,
    ...(description !== undefined && { description }),
    ...(parameters && { parametersJsonSchema: parameters }),
  };
}

function choiceOf({ toolChoice }: InferenceRequest): JsonObject {
  if (toolChoice === 'none') return { mode: 'NONE' };
  if (toolChoice === 'auto') return { mode: 'AUTO' };
  if (toolChoice === 'required') return { mode: 'ANY' };
  return { mode: 'ANY', allowedFunctionNames: [toolChoice.name] };
}

/** Messages of one role in a row become one: the results of several calls must be in one content. */
function contentsOf(messages: readonly GivenMessage[]): JsonObject[] {
  const contents: { role: 'user' | 'model'; parts: JsonObject[] }[] = [];
  /** The names of the calls that no result has followed yet, by their ids. */
  const open = new Map<string, string>();
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'model' : 'user';
    const parts = message.role === 'tool' ? [resultPart(message, open)] : messageParts(message);
    for (const { id, name } of message.calls) open.set(id, name);
    const last = contents.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else contents.push({ role, parts });
  }
  return contents.filter(({ parts }) => parts.length > 0);
}

/**
 * The result of a call. This API wants the name of the function, which our message does not have. Each call takes one
 * result, so that a name is not repeated more often than the payload has it: a hard budget counts its bytes.
 */
function resultPart(message: GivenMessage, open: Map<string, string>): JsonObject {
  const { callId = '', field } = message;
  const name = open.get(callId);
  if (name === undefined) throw invalid(field, 'is the result of a call that no message before it has made');
  open.delete(callId);
  const output = textParts(message)
    .map(({ text }) => text)
    .join('');
  return { functionResponse: { id: callId, name, response: { output } } };
}

function messageParts(message: GivenMessage): JsonObject[] {
  const { role, content, field, calls, givenCalls } = message;
  if (role !== 'assistant') return partsOf(content, field).map((part) => partOf(part, field));
  const given = listOf(givenCalls);
  return [...textParts(message), ...calls.map((call, at) => callPart(call, given[at], field))];
}

function textParts({ role, content, field }: GivenMessage): { text: string }[] {
  return partsOf(content, field).map((part) => {
    if (part.is === 'text') return { text: part.text };
    throw unsupported(`"${role}" messages with anything but text`, field);
  });
}

function partOf(part: ContentPart, field: string): JsonObject {
  if (part.is === 'text') return { text: part.text };
  const { source } = part;
  if (!source || 'url' in source) throw unsupported('images and files that are not in the request', field);
  const { mediaType, data } = source;
  const types = part.is === 'image' ? IMAGE_TYPES : FILE_TYPES;
  if (!types.has(mediaType)) throw unsupported(`${part.is}s of the type ${mediaType}`, field);
  return { inlineData: { mimeType: mediaType, data } };
}

function callPart(call: GivenMessage['calls'][number], given: unknown, field: string): JsonObject {
  const { id, name, arguments: text } = call;
  let args: unknown;
  try {
    args = text.trim() === '' ? {} : JSON.parse(text);
  } catch {
    args = undefined;
  }
  if (!isObject(args)) throw invalid(field, 'has a call whose arguments are no JSON object');
  const signature = signatureIn(given);
  return {
    functionCall: { id, name, args },
    ...(signature !== '' && { thoughtSignature: signature }),
  };
}

/**
 * What the model has thought before a call, sealed by the provider. Models since Gemini 3 refuse a conversation whose
 * calls come back without it. It is where Google's API in the form of OpenAI's has it too.
 */
export const signedCall = (signature: string): JsonObject => ({
  extra_content: { google: { thought_signature: signature } },
});

const signatureIn = (call: unknown): string =>
  textOr(fieldsOf(fieldsOf(fieldsOf(call)['extra_content'])['google'])['thought_signature']);

const invalid = (field: string, what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"${field}" ${what}`, { field, isUncharged: true });
