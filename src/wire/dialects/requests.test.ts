/** One request in the form of OpenAI's chat, in every dialect; the types of the official clients hold the forms. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { readInferenceRequest } from '../../daemons/execution/inference-request.ts';
import type { InferenceRequest } from '../../model/inference.ts';
import { messagesBody, versionFor } from './anthropic-messages.ts';
import { asChat } from './as-chat.ts';
import { chatBody } from './openai-chat.ts';
import { responsesBody } from './openai-responses.ts';

const read = (body: object): InferenceRequest => readInferenceRequest({ job_id: 'j', ...body }, 'any');

const PNG = 'data:image/png;base64,iVBORw0KGgo=';
const PDF = 'data:application/pdf;base64,JVBERi0=';
const parameters = { type: 'object', properties: { far: { type: 'boolean' } } };
const schema = { type: 'object', properties: { ok: { type: 'boolean' } } };

const CONVERSATION = {
  messages: [
    { role: 'developer', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: PNG, detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://example.org/cat.jpg' } },
        { type: 'file', file: { file_data: PDF, filename: 'a.pdf' } },
      ],
    },
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"far":true}' } },
        { id: 'c2', type: 'function', function: { name: 'look', arguments: '' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
    { role: 'tool', tool_call_id: 'c2', content: [{ type: 'text', text: 'a dog' }] },
    { role: 'user', content: 'And now?' },
  ],
  tools: [{ type: 'function', function: { name: 'look', description: 'Looks', parameters } }],
  tool_choice: { type: 'function', function: { name: 'look' } },
  parallel_tool_calls: false,
  response_format: { type: 'json_schema', json_schema: { name: 'reply', schema, strict: true } },
  max_tokens: 100,
  reasoning_effort: 'low',
};

test('a conversation for /v1/messages', () => {
  const expected: Anthropic.MessageCreateParamsStreaming = {
    model: 'claude',
    max_tokens: 100,
    system: [{ type: 'text', text: 'Be brief.' }],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
          { type: 'image', source: { type: 'url', url: 'https://example.org/cat.jpg' } },
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
            title: 'a.pdf',
          },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'c1', name: 'look', input: { far: true } },
          { type: 'tool_use', id: 'c2', name: 'look', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'a cat' }] },
          { type: 'tool_result', tool_use_id: 'c2', content: [{ type: 'text', text: 'a dog' }] },
          { type: 'text', text: 'And now?' },
        ],
      },
    ],
    tools: [
      {
        name: 'look',
        description: 'Looks',
        input_schema: { type: 'object', properties: parameters.properties },
      },
    ],
    tool_choice: { type: 'tool', name: 'look', disable_parallel_tool_use: true },
    output_config: { format: { type: 'json_schema', schema }, effort: 'low' },
    stream: true,
  };
  assert.deepEqual(messagesBody(read(CONVERSATION), 'claude', { stream: true }), expected);
});

test('a conversation for /v1/responses', () => {
  const expected: OpenAI.Responses.ResponseCreateParamsStreaming = {
    model: 'gpt',
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] },
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is this?' },
          { type: 'input_image', image_url: PNG, detail: 'low' },
          { type: 'input_image', image_url: 'https://example.org/cat.jpg', detail: 'auto' },
          { type: 'input_file', file_data: PDF, filename: 'a.pdf' },
        ],
      },
      { type: 'message', role: 'assistant', content: 'I look.' },
      { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{"far":true}' },
      { type: 'function_call', call_id: 'c2', name: 'look', arguments: '' },
      { type: 'function_call_output', call_id: 'c1', output: 'a cat' },
      { type: 'function_call_output', call_id: 'c2', output: 'a dog' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'And now?' }] },
    ],
    max_output_tokens: 100,
    tools: [{ type: 'function', name: 'look', description: 'Looks', parameters, strict: false }],
    tool_choice: { type: 'function', name: 'look' },
    parallel_tool_calls: false,
    text: { format: { type: 'json_schema', name: 'reply', schema, strict: true } },
    reasoning: { effort: 'low' },
    stream: true,
  };
  assert.deepEqual(responsesBody(read(CONVERSATION), 'gpt', { stream: true }), expected);
});

test('a conversation for /v1/chat/completions is passed on as it is', () => {
  const { job_id: _, ...body } = { job_id: 'j', ...CONVERSATION };
  assert.deepEqual(chatBody(read(CONVERSATION), 'gpt', {}), { ...body, model: 'gpt' });
});

test('a server of our own gets max_tokens, and no field that is not known', () => {
  const body = {
    ...CONVERSATION,
    n: 5,
    best_of: 5,
    max_completion_tokens: 9999,
    audio: {},
    service_tier: 'priority',
  };
  assert.deepEqual(chatBody(read(body), 'gpt', {}), { ...CONVERSATION, model: 'gpt' });
});

test('a prompt is one message of a user, unless it is a text to go on with', () => {
  const prompt = { prompt: 'Hello' };
  assert.deepEqual(chatBody(asChat(read(prompt)), 'gpt', {}), {
    model: 'gpt',
    messages: [{ role: 'user', content: 'Hello' }],
  });
  const { messages, max_tokens } = messagesBody(read(prompt), 'claude');
  assert.deepEqual(
    [messages, max_tokens],
    [[{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }], 8192],
  );
  const raw = read({ ...prompt, raw_prompt: true });
  assert.throws(() => messagesBody(raw, 'claude'), { code: 'UNSUPPORTED' });
  assert.throws(() => responsesBody(raw, 'gpt', {}), { code: 'UNSUPPORTED' });
});

const CHOICES: [unknown, object, unknown][] = [
  ['auto', { type: 'auto' }, 'auto'],
  ['none', { type: 'none' }, 'none'],
  ['required', { type: 'any' }, 'required'],
];
for (const [choice, anthropic, openai] of CHOICES) {
  test(`the choice of tools "${choice}" in each dialect`, () => {
    const { tools } = CONVERSATION;
    const request = read({ prompt: 'Hello', tools, tool_choice: choice });
    assert.deepEqual(messagesBody(request, 'claude')['tool_choice'], anthropic);
    assert.deepEqual(responsesBody(request, 'gpt', {})['tool_choice'], openai);
  });
}

test('fields of sampling are for the version of the API that has them', () => {
  const body = messagesBody(read({ prompt: 'x', temperature: 0, top_p: 1, top_k: 5, stop: 'END' }), 'claude');
  const { temperature, top_p, top_k, stop_sequences } = body;
  assert.deepEqual([temperature, top_p, top_k, stop_sequences], [0, 1, 5, ['END']]);
  assert.equal(versionFor(body), '2023-06-01');
  assert.equal(versionFor(messagesBody(read({ prompt: 'x' }), 'claude')), '2026-10-21');
});

const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const UNSUPPORTED: [string, object, ('messages' | 'responses')[]][] = [
  ['a seed', { prompt: 'x', seed: 1 }, ['messages', 'responses']],
  ['a stop', { prompt: 'x', stop: 'x' }, ['responses']],
  ['penalties', { prompt: 'x', presence_penalty: 1 }, ['messages', 'responses']],
  ['embeddings', { input: 'x' }, ['messages', 'responses']],
  ['sound', user({ type: 'input_audio', input_audio: {} }), ['messages', 'responses']],
  [
    'an image that is no URL',
    user({ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }),
    ['messages', 'responses'],
  ],
  [
    'an image of another kind',
    user({ type: 'image_url', image_url: { url: 'data:image/tiff;base64,AA==' } }),
    ['messages'],
  ],
  ['a file of another provider', user({ type: 'file', file: { file_id: 'f' } }), ['messages']],
  ['JSON without a schema', { prompt: 'x', response_format: { type: 'json_object' } }, ['messages']],
  ['an effort of another provider', { prompt: 'x', reasoning_effort: 'minimal' }, ['messages']],
  ['a high temperature', { prompt: 'x', temperature: 1.2 }, ['messages']],
];
for (const [what, body, dialects] of UNSUPPORTED) {
  test(`${what} is not supported by ${dialects.join(' and ')}`, () => {
    const bodies = {
      messages: () => messagesBody(read(body), 'm'),
      responses: () => responsesBody(read(body), 'm', {}),
    };
    for (const [dialect, make] of Object.entries(bodies)) {
      if (dialects.includes(dialect as never)) assert.throws(make, { code: 'UNSUPPORTED' });
      else assert.doesNotThrow(make);
    }
  });
}

test('arguments of a call that are no JSON cannot be sent to Anthropic', () => {
  const tool_calls = [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{"far":' } }];
  const request = read({ messages: [{ role: 'assistant', tool_calls }] });
  assert.throws(() => messagesBody(request, 'claude'), { code: 'INVALID_PARAMS' });
});
