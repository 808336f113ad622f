/**
 * The dialect of Anthropic's `/v1/messages`, whole and in message batches. System messages are taken out of the
 * conversation and put before it, as Anthropic's own compatibility layer does.
 */
import { OrchdError } from '../../model/errors.ts';
import type { InferenceRequest } from '../../model/inference.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { chatMessages, type GivenMessage, refuseFields, unsupported } from './as-chat.ts';
import { type ContentPart, partsOf } from './content.ts';
import { fieldsOf, isObject, type JsonObject, listOf, textOr } from './json.ts';
import { resultOf, toolCall } from './openai-chat.ts';
import { anthropicUsage } from './usage.ts';

export const VERSION_HEADER = 'anthropic-version';
export const ANTHROPIC_VERSION = '2026-10-21';
/** The version before, which has `temperature`, `top_p` and `top_k`: the newer one refuses requests with them. */
const SAMPLING_VERSION = '2023-06-01';

/** The version of the API that a request is for. The answers to both have the same form. */
export const versionFor = (body: JsonObject): string =>
  ['temperature', 'top_p', 'top_k'].some((name) => name in body) ? SAMPLING_VERSION : ANTHROPIC_VERSION;

/** This API wants a limit; every model of the last years can answer with this many tokens. */
const DEFAULT_MAX_TOKENS = 8192;

/** Fields of our requests that this API has nothing for. */
const NOT_THERE = [
  'seed',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'min_p',
] as const;

const IMAGE_TYPES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);
const EFFORTS: ReadonlySet<unknown> = new Set(['low', 'medium', 'high', 'xhigh', 'max']);

/** The body of a request, with fields in `more` that only this call has. */
export function messagesBody(request: InferenceRequest, model: string, more: JsonObject = {}): JsonObject {
  refuseFields(request, NOT_THERE);
  const { body, maxTokens, temperature, topP, stop, tools } = request;
  if (temperature !== undefined && temperature > 1) throw unsupported('a temperature above 1', 'temperature');
  const { top_k: topK, thinking } = body as JsonObject;
  const messages = chatMessages(request);
  const system = messages.filter(({ role }) => role === 'system').flatMap(blocksOf);
  const config = outputConfig(request);
  return {
    model,
    max_tokens: maxTokens ?? DEFAULT_MAX_TOKENS,
    messages: turnsOf(messages.filter(({ role }) => role !== 'system')),
    ...(system.length > 0 && { system }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(topK !== undefined && topK !== null && { top_k: topK }),
    ...(stop.length > 0 && { stop_sequences: stop }),
    ...(tools.length > 0 && { tools: tools.map(toolOf), tool_choice: choiceOf(request) }),
    ...(config && { output_config: config }),
    ...(isObject(thinking) && { thinking }),
    ...more,
  };
}

function toolOf({ name, description, parameters }: InferenceRequest['tools'][number]): JsonObject {
  return {
    name,
    ...(description !== undefined && { description }),
    input_schema: { type: 'object', ...parameters },
  };
}

function choiceOf({ toolChoice, body }: InferenceRequest): JsonObject {
  if (toolChoice === 'none') return { type: 'none' };
  const alone = (body as JsonObject)['parallel_tool_calls'] === false && { disable_parallel_tool_use: true };
  if (toolChoice === 'auto') return { type: 'auto', ...alone };
  if (toolChoice === 'required') return { type: 'any', ...alone };
  return { type: 'tool', name: toolChoice.name, ...alone };
}

function outputConfig({ format, body }: InferenceRequest): JsonObject | undefined {
  if (format === 'json') throw unsupported('JSON without a schema', 'response_format');
  const effort = (body as JsonObject)['reasoning_effort'] ?? undefined;
  if (effort !== undefined && !EFFORTS.has(effort)) throw unsupported('this effort', 'reasoning_effort');
  if (format === 'any' && effort === undefined) return undefined;
  return {
    ...(format !== 'any' && { format: { type: 'json_schema', schema: format.schema } }),
    ...(effort !== undefined && { effort }),
  };
}

/** Messages of one role in a row become one: the results of several calls must be in one message. */
function turnsOf(messages: readonly GivenMessage[]): JsonObject[] {
  const turns: { role: 'user' | 'assistant'; content: JsonObject[] }[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const blocks = message.role === 'tool' ? [resultBlock(message)] : blocksOf(message);
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else turns.push({ role, content: blocks });
  }
  return turns.filter(({ content }) => content.length > 0);
}

function resultBlock(message: GivenMessage): JsonObject {
  const content = partsOf(message.content, message.field).map((part) => blockOf(part, message.field));
  return { type: 'tool_result', tool_use_id: message.callId ?? '', content };
}

function blocksOf(message: GivenMessage): JsonObject[] {
  const { role, content, field, calls } = message;
  const parts = partsOf(content, field);
  if (role !== 'user' && parts.some(({ is }) => is !== 'text')) {
    throw unsupported(`"${role}" messages with anything but text`, field);
  }
  return [...parts.map((part) => blockOf(part, field)), ...calls.map((call) => callBlock(call, field))];
}

function blockOf(part: ContentPart, field: string): JsonObject {
  if (part.is === 'text') return { type: 'text', text: part.text };
  const { source } = part;
  if (part.is === 'image') {
    if ('url' in part.source) return { type: 'image', source: { type: 'url', url: part.source.url } };
    const { mediaType, data } = part.source;
    if (!IMAGE_TYPES.has(mediaType)) throw unsupported(`images of the type ${mediaType}`, field);
    return { type: 'image', source: { type: 'base64', media_type: mediaType, data } };
  }
  const title = part.name !== undefined && { title: part.name };
  if (source && 'url' in source)
    return { type: 'document', source: { type: 'url', url: source.url }, ...title };
  if (source?.mediaType === 'application/pdf') {
    return {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: source.data },
      ...title,
    };
  }
  if (source?.mediaType === 'text/plain') {
    const data = Buffer.from(source.data, 'base64').toString();
    return { type: 'document', source: { type: 'text', media_type: 'text/plain', data }, ...title };
  }
  throw unsupported('this kind of file', field);
}

function callBlock(call: GivenMessage['calls'][number], field: string): JsonObject {
  const { id, name, arguments: given } = call;
  let input: unknown;
  try {
    input = given.trim() === '' ? {} : JSON.parse(given);
  } catch {
    input = undefined;
  }
  if (isObject(input)) return { type: 'tool_use', id, name, input };
  throw new OrchdError('INVALID_PARAMS', `"${field}" has a call whose arguments are no JSON object`, {
    field,
    isUncharged: true,
  });
}

const STOP_REASONS: ReadonlyMap<unknown, NonNullable<ExecutionResult['finish_reason']>> = new Map([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
]);

export const finishOf = (stopReason: unknown): NonNullable<ExecutionResult['finish_reason']> =>
  STOP_REASONS.get(stopReason) ?? 'stop';

/** The result in a whole message, such as that of a batch. */
export function messageResult(message: JsonObject): ExecutionResult {
  const blocks = listOf(message['content']).map(fieldsOf);
  const textOf = (type: string, field: string): string =>
    blocks
      .filter((block) => block['type'] === type)
      .map((block) => textOr(block[field]))
      .join('');
  const calls = blocks
    .filter(({ type }) => type === 'tool_use')
    .map(({ id, name, input }) => toolCall(textOr(id), textOr(name), JSON.stringify(input ?? {})));
  return resultOf({
    text: textOf('text', 'text'),
    reasoning: textOf('thinking', 'thinking'),
    finish: finishOf(message['stop_reason']),
    calls,
    usage: anthropicUsage(message['usage']),
  });
}
