import assert from 'node:assert/strict';
import { test } from 'node:test';
import { estimateTokens } from './estimate.ts';

const CHAT = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 };
const user = (...content: unknown[]) => ({ messages: [{ role: 'user', content }], max_tokens: 100 });
const bound = (payload: unknown): unknown[] => {
  const { maxOutput, images, unboundedBy } = estimateTokens(payload) ?? {};
  return [maxOutput, images, unboundedBy];
};

/** Each may make a provider charge for more than the bytes of the payload and 100 tokens. */
const UNBOUNDED: [string, object, string][] = [
  ['no limit', { messages: CHAT.messages }, 'max_tokens'],
  ['several answers', { ...CHAT, n: 2 }, 'n'],
  ['a number of answers that is none', { ...CHAT, n: '1' }, 'n'],
  ['the best of several answers', { ...CHAT, best_of: 3 }, 'best_of'],
  ['several prompts', { prompt: ['a', 'b'], max_tokens: 100 }, 'prompt'],
  ['a prompt that the provider keeps', { prompt: { id: 'pmpt_1' }, max_tokens: 100 }, 'content.id'],
  ['a larger limit in another spelling', { ...CHAT, max_completion_tokens: 101 }, 'max_completion_tokens'],
  ['a larger limit of responses', { ...CHAT, max_output_tokens: 101 }, 'max_output_tokens'],
  ['more thinking than answer', { ...CHAT, thinking: { type: 'enabled', budget_tokens: 1024 } }, 'thinking'],
  ['more reasoning than answer', { ...CHAT, reasoning: { max_tokens: 1024 } }, 'reasoning'],
  ['a search', { ...CHAT, web_search_options: {} }, 'web_search_options'],
  ['a tool of the provider', { ...CHAT, tools: [{ type: 'web_search' }] }, 'tools.0'],
  [
    "Anthropic's tools, after one of ours",
    {
      ...CHAT,
      tools: [
        { type: 'function', function: {} },
        { type: 'web_search_20250305', name: 'web_search' },
      ],
    },
    'tools.1',
  ],
  ['tools that are no list', { ...CHAT, tools: { 0: { type: 'web_search' } } }, 'tools'],
  ['servers of tools', { ...CHAT, mcp_servers: [] }, 'mcp_servers'],
  ['plugins', { ...CHAT, plugins: [{ id: 'web' }] }, 'plugins'],
  ['sound', { ...CHAT, modalities: ['text', 'audio'], audio: { voice: 'x' } }, 'modalities'],
  ['a voice', { ...CHAT, audio: { voice: 'x' } }, 'audio'],
  [
    'a prediction, whose rejected tokens are charged',
    { ...CHAT, prediction: { content: 'x' } },
    'prediction',
  ],
  ['an earlier response', { ...CHAT, previous_response_id: 'resp_1' }, 'previous_response_id'],
  ['a stored conversation', { ...CHAT, conversation: 'conv_1' }, 'conversation'],
  ['a dearer tier', { ...CHAT, service_tier: 'priority' }, 'service_tier'],
  ['a dearer speed', { ...CHAT, speed: 'fast' }, 'speed'],
  ['a dearer region', { ...CHAT, inference_geo: 'us' }, 'inference_geo'],
  ['a cache for an hour', { ...CHAT, cache_control: { type: 'ephemeral', ttl: '1h' } }, 'cache_control'],
  ['more fields for the provider', { ...CHAT, extra_body: { n: 5 } }, 'extra_body'],
  [
    'more fields than are known',
    { ...CHAT, ...Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`f${n}`, null])) },
    'f198',
  ],
  ['a field that nobody knows', { ...CHAT, new_in_2031: true }, 'new_in_2031'],
  [
    'a cache for an hour in a part',
    user({ type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '1h' } }),
    'content.cache_control',
  ],
  ['a file by its id', user({ type: 'file', file: { file_id: 'f' } }), 'content.file'],
  [
    'a document, which is larger than its bytes',
    user({ type: 'file', file: { file_data: 'x' } }),
    'content.file',
  ],
  ['sound in the input', user({ type: 'input_audio', input_audio: { data: '' } }), 'content.input_audio'],
  ['a film', user({ type: 'video_url', video_url: { url: 'https://x' } }), 'content.video_url'],
  ['an image in the form of Anthropic', user({ type: 'image', source: { type: 'url' } }), 'content.image'],
  [
    'a file under the name of a text',
    user({ type: 'text', text: 'x', file: { file_id: 'f' } }),
    'content.file',
  ],
  ['a sound under the name of an image', user({ type: 'image_url', input_audio: {} }), 'content.input_audio'],
  ['an image and a text in one part', user({ type: 'image_url', image_url: 'x', text: 'y' }), 'content.text'],
  [
    'an earlier sound',
    { messages: [{ role: 'assistant', audio: { id: 'a' } }], max_tokens: 100 },
    'content.audio',
  ],
  [
    'images beside the content',
    { messages: [{ role: 'user', images: ['x'] }], max_tokens: 100 },
    'content.images',
  ],
  ['an embedding of messages', { input: [{ role: 'user', content: 'x' }] }, 'input'],
  ['an embedding that is also a chat', { input: 'x', messages: CHAT.messages }, 'input'],
  ['an embedding with something unknown', { input: 'x', rerank: true }, 'rerank'],
];
for (const [what, payload, by] of UNBOUNDED) {
  test(`nothing bounds the cost of a payload with ${what}`, () => {
    const [maxOutput, , unboundedBy] = bound(payload);
    assert.deepEqual([maxOutput, unboundedBy], [undefined, by]);
  });
}

const BOUNDED: [string, object, number, number | undefined][] = [
  ['a chat', CHAT, 100, undefined],
  ['one answer', { ...CHAT, n: 1, best_of: 1 }, 100, undefined],
  [
    'fields that are not set',
    { ...CHAT, n: null, audio: null, web_search_options: undefined },
    100,
    undefined,
  ],
  [
    'the same limit in other spellings',
    { ...CHAT, max_completion_tokens: 100, max_output_tokens: 7 },
    100,
    undefined,
  ],
  [
    'thinking within the limit',
    { ...CHAT, thinking: { type: 'enabled', budget_tokens: 99 } },
    100,
    undefined,
  ],
  ['adaptive thinking', { ...CHAT, thinking: { type: 'adaptive' } }, 100, undefined],
  ['an effort', { ...CHAT, reasoning_effort: 'high', reasoning: { effort: 'high' } }, 100, undefined],
  [
    'functions',
    { ...CHAT, tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'auto' },
    100,
    undefined,
  ],
  ['a short cache', { ...CHAT, cache_control: { type: 'ephemeral', ttl: '5m' } }, 100, undefined],
  ['the usual tier', { ...CHAT, service_tier: 'auto', modalities: ['text'] }, 100, undefined],
  ['one prompt in a list', { prompt: ['a'], max_tokens: 3, raw_prompt: true }, 3, undefined],
  [
    'images',
    user({ type: 'image_url', image_url: { url: 'https://x' } }, { type: 'text', text: 'x' }),
    100,
    1,
  ],
  [
    'calls and their results',
    {
      messages: [
        { role: 'assistant', content: null, tool_calls: [{ id: 'c', function: { name: 'f' } }], audio: null },
        { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'x' }, 'y'] },
      ],
      max_tokens: 5,
    },
    5,
    undefined,
  ],
  ['texts to embed', { input: ['a', 'b'], dimensions: 7, encoding_format: 'float' }, 0, undefined],
];
for (const [what, payload, maxOutput, images] of BOUNDED) {
  test(`the cost of a payload with ${what} is bounded`, () =>
    assert.deepEqual(bound(payload), [maxOutput, images, undefined]));
}
