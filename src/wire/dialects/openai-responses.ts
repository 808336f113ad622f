/**
 * The dialect of OpenAI's `/v1/responses`. Every event of its stream has a `sequence_number`; the last one carries the
 * whole response, so that the result never depends on the pieces that came before it.
 */
import { OrchdError } from '../../model/errors.ts';
import type { InferenceRequest } from '../../model/inference.ts';
import type { ExecutionResult, ToolCall, Usage } from '../../model/worker-wire.ts';
import { chatMessages, type GivenMessage, refuseFields, unsupported } from './as-chat.ts';
import { type ContentPart, partsOf } from './content.ts';
import { providerStreamError } from './errors.ts';
import { fieldsOf, type JsonObject, listOf, textOr } from './json.ts';
import { resultOf, toolCall } from './openai-chat.ts';
import { openAiUsage } from './usage.ts';

/** Fields of our requests that this API has nothing for. */
const NOT_THERE = [
  'seed',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'top_k',
  'min_p',
] as const;

/** The body of a request, with fields in `more` that say how it is run. */
export function responsesBody(request: InferenceRequest, model: string, more: JsonObject): JsonObject {
  refuseFields(request, NOT_THERE);
  if (request.stop.length > 0) throw unsupported('"stop"', 'stop');
  const { body, maxTokens, temperature, topP, tools } = request;
  const { parallel_tool_calls: parallel } = body as JsonObject;
  const format = formatOf(request);
  const reasoning = reasoningOf(body as JsonObject);
  return {
    model,
    input: chatMessages(request).flatMap(itemsOf),
    ...(maxTokens !== undefined && { max_output_tokens: maxTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(tools.length > 0 && { tools: (body.tools ?? []).map(toolOf), tool_choice: choiceOf(request) }),
    ...(tools.length > 0 && typeof parallel === 'boolean' && { parallel_tool_calls: parallel }),
    ...(format && { text: { format } }),
    ...(reasoning && { reasoning }),
    ...more,
  };
}

function itemsOf(message: GivenMessage): JsonObject[] {
  const { role, content, field, calls, callId, givenRole } = message;
  const parts = partsOf(content, field);
  if (role === 'tool')
    return [{ type: 'function_call_output', call_id: callId ?? '', output: outputOf(parts) }];
  if (role !== 'assistant') {
    return [{ type: 'message', role: givenRole, content: parts.map(inputOf) }];
  }
  if (parts.some(({ is }) => is !== 'text'))
    throw unsupported('answers of the model that are not text', field);
  const text = message.text;
  return [
    ...(text === '' ? [] : [{ type: 'message', role: 'assistant', content: text }]),
    ...calls.map(({ id, name, arguments: given }) => ({
      type: 'function_call',
      call_id: id,
      name,
      arguments: given,
    })),
  ];
}

function outputOf(parts: readonly ContentPart[]): string | JsonObject[] {
  const texts = parts.map((part) => (part.is === 'text' ? part.text : undefined));
  return texts.includes(undefined) ? parts.map(inputOf) : texts.join('');
}

function inputOf(part: ContentPart): JsonObject {
  if (part.is === 'text') return { type: 'input_text', text: part.text };
  if (part.is === 'image') return { type: 'input_image', image_url: part.url, detail: part.detail ?? 'auto' };
  const { given, name } = part;
  return {
    type: 'input_file',
    ...('id' in given ? { file_id: given.id } : { file_data: given.data }),
    ...(name !== undefined && { filename: name }),
  };
}

function toolOf(tool: JsonObject): JsonObject {
  const { name, description, parameters, strict } = fieldsOf(tool['function']);
  return {
    type: 'function',
    name,
    ...(description !== undefined && { description }),
    parameters: parameters ?? { type: 'object', properties: {} },
    // This API is strict by default, and the chat is not.
    strict: strict ?? false,
  };
}

function choiceOf({ toolChoice }: InferenceRequest): unknown {
  return typeof toolChoice === 'string' ? toolChoice : { type: 'function', name: toolChoice.name };
}

function formatOf({ format, body }: InferenceRequest): JsonObject | undefined {
  if (format === 'any') return undefined;
  if (format === 'json') return { type: 'json_object' };
  const { name, description, strict } = fieldsOf(fieldsOf(body.response_format)['json_schema']);
  return {
    type: 'json_schema',
    name: textOr(name) || 'answer',
    schema: format.schema,
    ...(typeof description === 'string' && { description }),
    ...(typeof strict === 'boolean' && { strict }),
  };
}

function reasoningOf(body: JsonObject): JsonObject | undefined {
  const given = fieldsOf(body['reasoning']);
  const effort = body['reasoning_effort'] ?? given['effort'];
  const reasoning = { ...given, ...(typeof effort === 'string' && { effort }) };
  return Object.keys(reasoning).length > 0 ? reasoning : undefined;
}

const LAST_STATUSES: ReadonlySet<unknown> = new Set(['completed', 'incomplete', 'failed', 'cancelled']);

/** Whether a response has ended. An object without a known status is no response, and says nothing. */
export const hasEnded = ({ status }: JsonObject): boolean => LAST_STATUSES.has(status);

/** The result of a response that has ended; throws an OrchdError where it has not succeeded. */
export function responseResult(response: JsonObject): ExecutionResult {
  const { status } = response;
  const usage = openAiUsage(response['usage']);
  if (status === 'failed') throw providerStreamError(response['error'], hasWork(response, usage));
  if (status === 'cancelled') {
    throw new OrchdError('EXECUTION_FAILED', 'the call was cancelled at the provider', { retriable: false });
  }
  const output = listOf(response['output']).map(fieldsOf);
  const calls = callsIn(output);
  return resultOf({
    text: textIn(output),
    reasoning: reasoningIn(output),
    finish: status === 'incomplete' ? incompleteReason(response) : calls.length > 0 ? 'tool_calls' : 'stop',
    calls,
    usage,
  });
}

const hasWork = (response: JsonObject, usage: Usage | undefined): boolean =>
  listOf(response['output']).length > 0 || (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0) > 0;

function incompleteReason(response: JsonObject): 'length' | 'content_filter' {
  const { reason } = fieldsOf(response['incomplete_details']);
  return reason === 'content_filter' ? 'content_filter' : 'length';
}

const partsIn = (item: JsonObject, field: 'content' | 'summary'): JsonObject[] =>
  listOf(item[field]).map(fieldsOf);

export const textIn = (output: readonly JsonObject[]): string =>
  output
    .filter(({ type }) => type === 'message')
    .flatMap((item) => partsIn(item, 'content'))
    .map(({ text, refusal }) => textOr(text ?? refusal))
    .join('');

export const reasoningIn = (output: readonly JsonObject[]): string =>
  output
    .filter(({ type }) => type === 'reasoning')
    .flatMap((item) => [...partsIn(item, 'summary'), ...partsIn(item, 'content')])
    .map(({ text }) => textOr(text))
    .join('');

export const callsIn = (output: readonly JsonObject[]): ToolCall[] =>
  output
    .filter(({ type }) => type === 'function_call')
    .map((item) => toolCall(textOr(item['call_id']), textOr(item['name']), textOr(item['arguments'])));
