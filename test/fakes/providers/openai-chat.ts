/** The answers of OpenAI's chat: whole, and as the chunks of a stream. */
import type { Frame } from './frames.ts';
import type { Json } from './provider.ts';
import {
  CACHED_TOKENS,
  completionTokens,
  PROMPT_TOKENS,
  REASONING_TOKENS,
  type Script,
  scriptOf,
} from './script.ts';
import type { FaultName } from './stage.ts';

const CREATED = 1_700_000_000;

export function chatUsage(body: Json): Json {
  const script = scriptOf(body.messages, body);
  const completion = completionTokens(script);
  return {
    prompt_tokens: PROMPT_TOKENS,
    completion_tokens: completion,
    total_tokens: PROMPT_TOKENS + completion,
    prompt_tokens_details: { cached_tokens: CACHED_TOKENS, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: script.reasoning === '' ? 0 : REASONING_TOKENS,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

export function wholeChat(id: string, body: Json, { words, call, reasoning }: Script): Json {
  const called = call && {
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  };
  return {
    id,
    object: 'chat.completion',
    created: CREATED,
    model: body.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: call ? null : words.join(''),
          refusal: null,
          ...(reasoning !== '' && { reasoning_content: reasoning }),
          ...(called && { tool_calls: [called] }),
        },
        logprobs: null,
        finish_reason: call ? 'tool_calls' : 'stop',
      },
    ],
    usage: chatUsage(body),
    metadata: body.metadata ?? {},
    service_tier: 'default',
  };
}

/** `error` is the event of the faults that send one. */
export function chatFrames(whole: Json, usage: Json, fault: FaultName | undefined, error: Frame): Frame[] {
  const [{ message, finish_reason }] = whole.choices;
  const head = { id: whole.id, object: 'chat.completion.chunk', created: CREATED, model: whole.model };
  const chunk = (delta: object, finish: string | null = null): string =>
    data({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }], usage: null });
  const output = (delta: object): Frame => ({ text: chunk(delta), mark: 'output' });
  const words: string[] = (message.content ?? '').match(/\S+\s*/g) ?? [];
  const outputs = [
    ...(message.reasoning_content ? [output({ reasoning_content: message.reasoning_content })] : []),
    ...words.map((content) => output({ content })),
    ...callFrames(message.tool_calls?.[0], output),
  ];
  if (fault === 'error_first') return [error];
  const count = (more: object): Frame => ({
    text: data({ ...head, choices: [], usage: { ...usage, ...more } }),
    mark: 'usage',
  });
  return [
    { text: chunk({ role: 'assistant', content: '', refusal: null }) },
    ...(fault === 'error_later' ? [...outputs.slice(0, 1), error] : outputs),
    { text: chunk({}, finish_reason) },
    ...(fault === 'usage_twice' ? [count({ completion_tokens: 1 })] : []),
    ...(fault === 'no_usage' ? [] : [count({})]),
    { text: 'data: [DONE]\n\n' },
  ];
}

function callFrames(call: Json, output: (delta: object) => Frame): Frame[] {
  if (!call) return [];
  const { id, function: called } = call;
  const half = Math.floor(called.arguments.length / 2);
  const part = (given: string): Frame =>
    output({ tool_calls: [{ index: 0, function: { arguments: given } }] });
  return [
    output({
      tool_calls: [{ index: 0, id, type: 'function', function: { name: called.name, arguments: '' } }],
    }),
    part(called.arguments.slice(0, half)),
    part(called.arguments.slice(half)),
  ];
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
