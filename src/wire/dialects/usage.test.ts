/** What providers say that they have used, up to its price; the types of the official clients hold the forms. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { costOf, type Rates } from '../../model/price.ts';
import { countsOf } from '../../model/usage.ts';
import type { Usage } from '../../model/worker-wire.ts';
import { batchResult } from './anthropic-batches.ts';
import { messageResult } from './anthropic-messages.ts';
import { MessageAnswer } from './anthropic-stream.ts';
import { completionResult, StreamedAnswer } from './openai-chat.ts';
import { responseResult } from './openai-responses.ts';
import { ResponsesAnswer } from './openai-responses-stream.ts';
import { anthropicUsage, geminiUsage, openAiUsage } from './usage.ts';

/** Micro-units for a million tokens: input, read from a cache, written to one, output, reasoning. */
const PER_MILLION = [3_000_000, 300_000, 3_750_000, 15_000_000, 20_000_000] as const;
const rates = (percent: number): Rates => [...PER_MILLION, 0, 0, 0, percent];
const costIn = (usage: Usage | undefined, percent = 100): number | undefined =>
  usage && costOf(rates(percent), countsOf(usage), { images: 0, ms: 0 });

const chat = (fields: Partial<OpenAI.CompletionUsage> = {}): OpenAI.CompletionUsage => ({
  prompt_tokens: 1000,
  completion_tokens: 200,
  total_tokens: 1200,
  ...fields,
});
const response = (fields: Partial<OpenAI.Responses.ResponseUsage> = {}): OpenAI.Responses.ResponseUsage => ({
  input_tokens: 1000,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 200,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 1200,
  ...fields,
});
const message = (fields: Partial<Anthropic.Usage> = {}): Anthropic.Usage => ({
  input_tokens: 1000,
  output_tokens: 200,
  cache_creation: null,
  cache_creation_input_tokens: null,
  cache_read_input_tokens: null,
  inference_geo: null,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: 'standard',
  speed: null,
  ...fields,
});
const gemini = (fields: object = {}) => ({ promptTokenCount: 1000, candidatesTokenCount: 200, ...fields });
const thinking = (thinking_tokens: number) => ({ output_tokens_details: { thinking_tokens } });
const reasoning = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } });
const cached = (cached_tokens: number, cache_write_tokens = 0) => ({
  prompt_tokens_details: { cached_tokens, cache_write_tokens },
});

/** Each with the sum that a reader can check: the tokens of each kind, times what one of them costs. */
const PRICED: [string, Usage | undefined, number][] = [
  ['chat: input and output', openAiUsage(chat()), 1000 * 3 + 200 * 15],
  ['chat: cached', openAiUsage(chat(cached(400))), 600 * 3 + 400 * 0.3 + 200 * 15],
  ['chat: reasoning', openAiUsage(chat(reasoning(50))), 1000 * 3 + 150 * 15 + 50 * 20],
  [
    'chat: everything',
    openAiUsage(chat({ ...cached(400, 100), ...reasoning(50) })),
    500 * 3 + 400 * 0.3 + 100 * 3.75 + 150 * 15 + 50 * 20,
  ],
  [
    'chat: parts that are parts of others, which are not added',
    openAiUsage(
      chat({
        prompt_tokens_details: { cached_tokens: 400, audio_tokens: 7, text_tokens: 993 },
        completion_tokens_details: {
          reasoning_tokens: 50,
          accepted_prediction_tokens: 20,
          rejected_prediction_tokens: 10,
        },
      }),
    ),
    600 * 3 + 400 * 0.3 + 150 * 15 + 50 * 20,
  ],
  ['responses: input and output', openAiUsage(response()), 1000 * 3 + 200 * 15],
  [
    'responses: everything',
    openAiUsage(
      response({
        input_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
        output_tokens_details: { reasoning_tokens: 50 },
      }),
    ),
    500 * 3 + 400 * 0.3 + 100 * 3.75 + 150 * 15 + 50 * 20,
  ],
  ['messages: input and output', anthropicUsage(message()), 1000 * 3 + 200 * 15],
  [
    'messages: cached, which is beside the input',
    anthropicUsage(message({ input_tokens: 600, cache_read_input_tokens: 400 })),
    600 * 3 + 400 * 0.3 + 200 * 15,
  ],
  [
    'messages: everything',
    anthropicUsage(
      message({
        input_tokens: 500,
        cache_read_input_tokens: 400,
        cache_creation_input_tokens: 100,
        cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 0 },
        ...thinking(50),
      }),
    ),
    500 * 3 + 400 * 0.3 + 100 * 3.75 + 150 * 15 + 50 * 20,
  ],
  ['gemini: input and output', geminiUsage(gemini({ totalTokenCount: 1200 })), 1000 * 3 + 200 * 15],
  [
    'gemini: cached, which is in the prompt',
    geminiUsage(gemini({ cachedContentTokenCount: 400 })),
    600 * 3 + 400 * 0.3 + 200 * 15,
  ],
  [
    'gemini: thoughts, which are beside the answer',
    geminiUsage(gemini({ thoughtsTokenCount: 50 })),
    1000 * 3 + 200 * 15 + 50 * 20,
  ],
  [
    'gemini: thoughts, and no answer',
    geminiUsage({ promptTokenCount: 1000, thoughtsTokenCount: 50, totalTokenCount: 1050 }),
    1000 * 3 + 50 * 20,
  ],
  [
    'gemini: a total that is larger than its parts',
    geminiUsage(gemini({ totalTokenCount: 1300 })),
    1000 * 3 + 300 * 15,
  ],
  [
    'gemini: a prompt of tools',
    geminiUsage(gemini({ toolUsePromptTokenCount: 10, totalTokenCount: 1210 })),
    1010 * 3 + 200 * 15,
  ],
];
for (const [what, usage, cost] of PRICED) {
  test(`every token is priced once: ${what}`, () => {
    assert.equal(costIn(usage), cost);
    assert.equal(costIn(usage, 50), Math.ceil(cost / 2), 'in a batch');
  });
}

test('the results of all APIs carry the usage: a chat, a response, a message, and one of a batch', () => {
  const everything = 5245;
  const told = message({
    input_tokens: 500,
    cache_read_input_tokens: 400,
    cache_creation_input_tokens: 100,
    ...thinking(50),
  });
  const openai = response({
    input_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
    output_tokens_details: { reasoning_tokens: 50 },
  });
  const results = [
    completionResult({ choices: [{}], usage: chat({ ...cached(400, 100), ...reasoning(50) }) }),
    responseResult({ status: 'completed', usage: openai }),
    messageResult({ usage: told }),
    batchResult({ type: 'succeeded', message: { usage: told } }),
  ];
  assert.deepEqual(
    results.map(({ usage }) => costIn(usage)),
    [everything, everything, everything, everything],
  );
});

const UNKNOWN: [string, unknown][] = [
  ['nothing', undefined],
  ['null', null],
  ['a text', 'many'],
  ['a list', [1, 2]],
  ['an empty object', {}],
  ['no input', { completion_tokens: 2, total_tokens: 9 }],
  ['no output and no total', { prompt_tokens: 7 }],
  ['a negative input', chat({ prompt_tokens: -1 })],
  ['a negative output', chat({ completion_tokens: -200 })],
  ['a negative total', chat({ total_tokens: -1 })],
  ['a negative part', chat(cached(-400))],
  ['a fraction', chat({ completion_tokens: 0.5 })],
  ['no number', chat({ completion_tokens: Number.NaN })],
  ['a number that is too large', chat({ prompt_tokens: 2 ** 53 })],
  ['a number as a text', chat({ prompt_tokens: '1000' as never })],
  ['a negative number of tokens of reasoning', chat(reasoning(-50))],
];
for (const [what, told] of UNKNOWN)
  test(`a usage with ${what} is unknown, and no credit`, () => assert.equal(openAiUsage(told), undefined));

const UNKNOWN_MESSAGES: [string, Record<string, unknown>][] = [
  ['no input', { output_tokens: 8 }],
  ['no output', { input_tokens: 8 }],
  ['a negative output', message({ output_tokens: -1 }) as never],
  ['negative tokens of a cache', message({ cache_read_input_tokens: -400 }) as never],
  ['a fraction', message({ cache_creation_input_tokens: 0.5 }) as never],
  ['negative thinking', message(thinking(-1)) as never],
  ['a sum that is too large', message({ input_tokens: 2 ** 53 - 1, cache_read_input_tokens: 1 }) as never],
];
for (const [what, told] of UNKNOWN_MESSAGES)
  test(`the usage of a message with ${what} is unknown, and no credit`, () =>
    assert.equal(anthropicUsage(told), undefined));

const UNKNOWN_GEMINI: [string, unknown][] = [
  ['no prompt', { candidatesTokenCount: 2, totalTokenCount: 9 }],
  ['no output and no total', { promptTokenCount: 7 }],
  ['a negative answer', gemini({ candidatesTokenCount: -1 })],
  ['negative thoughts', gemini({ thoughtsTokenCount: -50 })],
  ['negative tokens of a cache', gemini({ cachedContentTokenCount: -400 })],
  ['a fraction', gemini({ totalTokenCount: 0.5 })],
  ['a number as a text', gemini({ promptTokenCount: '1000' })],
  ['a sum that is too large', gemini({ promptTokenCount: 2 ** 53 - 1, toolUsePromptTokenCount: 1 })],
];
for (const [what, told] of UNKNOWN_GEMINI)
  test(`the usage of Gemini with ${what} is unknown, and no credit`, () =>
    assert.equal(geminiUsage(told), undefined));

const OTHER_SPELLINGS: [string, unknown, number][] = [
  [
    'reasoning beside the output, and in the total',
    { prompt_tokens: 10, completion_tokens: 20, total_tokens: 130, ...reasoning(100) },
    10 * 3 + 20 * 15 + 100 * 20,
  ],
  ['no output, but a total', { prompt_tokens: 10, total_tokens: 30 }, 10 * 3 + 20 * 15],
  [
    'cached tokens beside the prompt',
    { prompt_tokens: 10, completion_tokens: 1, ...cached(400) },
    10 * 3 + 400 * 0.3 + 15,
  ],
  [
    'hits and misses of a cache',
    { prompt_tokens: 30, completion_tokens: 1, prompt_cache_hit_tokens: 20, prompt_cache_miss_tokens: 10 },
    10 * 3 + 20 * 0.3 + 15,
  ],
  [
    "Anthropic's words for OpenAI's counts",
    { prompt_tokens: 30, completion_tokens: 1, cache_read_input_tokens: 20, cache_creation_input_tokens: 4 },
    6 * 3 + 20 * 0.3 + 4 * 3.75 + 15,
  ],
  [
    'a total that is too small',
    { prompt_tokens: 10, completion_tokens: 20, total_tokens: 3 },
    10 * 3 + 20 * 15,
  ],
];
for (const [what, told, cost] of OTHER_SPELLINGS)
  test(`a usage with ${what} costs ${cost}`, () => assert.equal(costIn(openAiUsage(told)), cost));

function listened(): {
  heard: (Usage | undefined)[];
  emit(): void;
  noteUsage(usage: Usage | undefined): void;
} {
  const heard: (Usage | undefined)[] = [];
  return { heard, emit: () => undefined, noteUsage: (usage) => void heard.push(usage) };
}
const part = (prompt_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  partial: true,
});
const whole = (prompt_tokens: number, completion_tokens: number) => ({ prompt_tokens, completion_tokens });

test('a chat: the usage that is told last counts, and one before the end is a part', () => {
  const listener = listened();
  const answer = new StreamedAnswer(listener);
  const add = (choice: object[], usage: unknown) =>
    answer.addChunk(JSON.stringify({ choices: choice, usage }));
  add([{ delta: { content: 'a' } }], { prompt_tokens: 3, completion_tokens: 1 });
  add([{ delta: { content: 'b' } }], null);
  add([{ delta: {}, finish_reason: 'stop' }], { prompt_tokens: 3, completion_tokens: 2 });
  add([], { prompt_tokens: 3, completion_tokens: 2 });
  assert.deepEqual(listener.heard, [part(3, 1), whole(3, 2), whole(3, 2)]);
  assert.deepEqual(answer.result().usage, whole(3, 2));
  add([], { prompt_tokens: 3, completion_tokens: -2 });
  assert.deepEqual([answer.result().usage, listener.heard.at(-1)], [undefined, undefined]);
});

test('a message: counts are cumulative and never fall, and those before the stop reason are a part', () => {
  const listener = listened();
  const answer = new MessageAnswer(listener);
  const add = (event: object) => answer.add(JSON.stringify(event));
  const delta = (stop_reason: string | null, usage: object) =>
    add({ type: 'message_delta', delta: { stop_reason }, usage });
  add({ type: 'message_start', message: { usage: message({ input_tokens: 3, output_tokens: 1 }) } });
  delta(null, { output_tokens: 40 });
  delta('end_turn', { output_tokens: 90, input_tokens: null });
  delta('end_turn', { output_tokens: 2, input_tokens: 1 });
  assert.deepEqual(listener.heard, [part(3, 1), part(3, 40), whole(3, 90), whole(3, 90)]);
  delta('end_turn', { output_tokens: -90 });
  assert.deepEqual([answer.result().usage, listener.heard.at(-1)], [undefined, undefined]);
});

test('a response: the usage of one that has not ended is a part', () => {
  const listener = listened();
  const answer = new ResponsesAnswer(listener);
  const add = (status: string, output_tokens: number) =>
    answer.add(
      JSON.stringify({
        type: 'response',
        response: { id: 'r', status, usage: { input_tokens: 3, output_tokens } },
      }),
    );
  add('in_progress', 1);
  add('completed', 9);
  assert.deepEqual(listener.heard, [part(3, 1), whole(3, 9)]);
  assert.deepEqual(answer.result().usage, whole(3, 9));
});
