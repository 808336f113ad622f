/** The answers of Anthropic's messages: whole, and as the events of a stream. */
import type { Frame } from './frames.ts';
import type { Json } from './provider.ts';
import { CACHED_TOKENS, completionTokens, PROMPT_TOKENS, REASONING_TOKENS, scriptOf } from './script.ts';
import type { FaultName } from './stage.ts';

export const WRITTEN_TOKENS = 2;

/** `input_tokens` are those that were neither read from a cache nor written to one. */
const inputUsage = {
  input_tokens: PROMPT_TOKENS - CACHED_TOKENS - WRITTEN_TOKENS,
  cache_creation_input_tokens: WRITTEN_TOKENS,
  cache_read_input_tokens: CACHED_TOKENS,
};

export function wholeMessage(id: string, body: Json): Json {
  const script = scriptOf(body.messages, body);
  const { reasoning, words, call } = script;
  const thinking = reasoning === '' ? 0 : REASONING_TOKENS;
  return {
    id,
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [
      ...(reasoning === '' ? [] : [{ type: 'thinking', thinking: reasoning, signature: 'c2ln' }]),
      ...(words.length === 0 ? [] : [{ type: 'text', text: words.join(''), citations: null }]),
      ...(call
        ? [{ type: 'tool_use', id: call.id, name: call.name, input: JSON.parse(call.arguments) }]
        : []),
    ],
    stop_reason: call ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: {
      ...inputUsage,
      output_tokens: completionTokens(script),
      output_tokens_details: { thinking_tokens: thinking },
      service_tier: 'standard',
    },
  };
}

/** `error` is the event of the faults that send one. */
export function messageFrames(message: Json, fault: FaultName | undefined, error: Json): Frame[] {
  const failed = frame('error', error);
  if (fault === 'error_first') return [failed];
  const { content, usage, stop_reason, stop_sequence } = message;
  const start = { ...message, content: [], stop_reason: null, usage: { ...inputUsage, output_tokens: 1 } };
  const blocks: Frame[] = content.flatMap(blockFrames);
  const delta = (output_tokens: number): Frame =>
    frame(
      'message_delta',
      { delta: { stop_reason, stop_sequence }, usage: { ...usage, output_tokens } },
      'usage',
    );
  const counted = [
    ...(fault === 'usage_twice' ? [delta(2)] : []),
    ...(fault === 'no_usage'
      ? [frame('message_delta', { delta: { stop_reason, stop_sequence } })]
      : [delta(usage.output_tokens)]),
  ];
  const first = fault === 'no_usage' ? { ...start, usage: undefined } : start;
  return [
    frame('message_start', { message: first }),
    frame('ping', {}),
    ...(fault === 'error_later' ? [...blocks.slice(0, 2), failed] : blocks),
    ...counted,
    frame('message_stop', {}),
  ];
}

function blockFrames(block: Json, index: number): Frame[] {
  const deltas: Json[] =
    block.type === 'text'
      ? block.text.match(/\S+\s*/g).map((text: string) => ({ type: 'text_delta', text }))
      : block.type === 'thinking'
        ? [
            { type: 'thinking_delta', thinking: block.thinking },
            { type: 'signature_delta', signature: block.signature },
          ]
        : jsonDeltas(JSON.stringify(block.input));
  const empty = { ...block, text: '', thinking: '', input: {} };
  const begun: Json = {
    text: ['text', 'citations'],
    thinking: ['thinking'],
    tool_use: ['id', 'name', 'input'],
  };
  const content_block = Object.fromEntries(['type', ...begun[block.type]].map((name) => [name, empty[name]]));
  return [
    frame('content_block_start', { index, content_block }),
    ...deltas.map((delta) => frame('content_block_delta', { index, delta }, 'output')),
    frame('content_block_stop', { index }),
  ];
}

function jsonDeltas(json: string): Json[] {
  const half = Math.floor(json.length / 2);
  return ['', json.slice(0, half), json.slice(half)].map((partial_json) => ({
    type: 'input_json_delta',
    partial_json,
  }));
}

const frame = (type: string, fields: object, mark?: Frame['mark']): Frame => ({
  text: `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`,
  mark,
});
