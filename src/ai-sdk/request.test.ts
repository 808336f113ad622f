import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LanguageModelV4CallOptions, LanguageModelV4Prompt } from '@ai-sdk/provider';
import { callRequest } from './request.ts';

const HELLO: LanguageModelV4Prompt = [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }];
const HELLO_MESSAGES = [{ role: 'user', content: 'Hello' }];

const payloadOf = (prompt: LanguageModelV4Prompt, more: Partial<LanguageModelV4CallOptions> = {}) =>
  callRequest({ prompt, ...more }).payload;

const featuresOf = (options: Partial<LanguageModelV4CallOptions>) =>
  callRequest({ prompt: HELLO, ...options }).warnings.list.map((warning) =>
    warning.type === 'unsupported' ? warning.feature : warning.type,
  );

test('a call with nothing but a prompt has nothing but messages', () => {
  assert.deepEqual(payloadOf(HELLO), { messages: HELLO_MESSAGES });
  assert.deepEqual(featuresOf({}), []);
});

test('settings have the names of our payloads', () => {
  const payload = payloadOf(HELLO, {
    maxOutputTokens: 9,
    temperature: 0,
    topP: 0.5,
    topK: 3,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    seed: 7,
    stopSequences: ['END'],
    reasoning: 'high',
  });
  assert.deepEqual(payload, {
    messages: HELLO_MESSAGES,
    max_tokens: 9,
    temperature: 0,
    top_p: 0.5,
    top_k: 3,
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    seed: 7,
    stop: ['END'],
    reasoning_effort: 'high',
  });
});

test('a conversation with tools becomes messages: text, reasoning, calls and results', () => {
  const messages = payloadOf([
    { role: 'system', content: 'Be short.' },
    ...HELLO,
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm' },
        { type: 'text', text: 'I ' },
        { type: 'text', text: 'look.' },
        {
          type: 'tool-call',
          toolCallId: 'c1',
          toolName: 'look',
          input: { far: true },
          providerOptions: { orchd: { extra_content: { google: { thought_signature: 's' } } } },
        },
      ],
    },
    {
      role: 'tool',
      content: [
        { type: 'tool-result', toolCallId: 'c1', toolName: 'look', output: { type: 'text', value: 'a fox' } },
        {
          type: 'tool-result',
          toolCallId: 'c2',
          toolName: 'look',
          output: { type: 'json', value: { n: 1 } },
        },
        {
          type: 'tool-result',
          toolCallId: 'c3',
          toolName: 'look',
          output: { type: 'error-text', value: 'no' },
        },
        {
          type: 'tool-result',
          toolCallId: 'c4',
          toolName: 'look',
          output: { type: 'error-json', value: [1] },
        },
        {
          type: 'tool-result',
          toolCallId: 'c5',
          toolName: 'look',
          output: { type: 'execution-denied', reason: 'Not now.' },
        },
      ],
    },
  ])['messages'];
  assert.deepEqual(messages, [
    { role: 'system', content: 'Be short.' },
    ...HELLO_MESSAGES,
    {
      role: 'assistant',
      content: 'I look.',
      reasoning_content: 'hm',
      tool_calls: [
        {
          id: 'c1',
          type: 'function',
          function: { name: 'look', arguments: '{"far":true}' },
          extra_content: { google: { thought_signature: 's' } },
        },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'a fox' },
    { role: 'tool', tool_call_id: 'c2', content: '{"n":1}' },
    { role: 'tool', tool_call_id: 'c3', content: 'no' },
    { role: 'tool', tool_call_id: 'c4', content: '[1]' },
    { role: 'tool', tool_call_id: 'c5', content: 'The call of the tool was denied. Not now.' },
  ]);
});

test('files become parts of messages: images, sound, texts, documents and stored files', () => {
  const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a]);
  const file = (mediaType: string, data: object, more: object = {}) =>
    ({ type: 'file', mediaType, data, ...more }) as never;
  const [message] = payloadOf([
    {
      role: 'user',
      content: [
        { type: 'text', text: 'See:' },
        file('image', { type: 'data', data: PNG }, { providerOptions: { orchd: { detail: 'low' } } }),
        file('image/*', { type: 'url', url: new URL('https://example.org/a.png') }),
        file('audio/wav', { type: 'data', data: 'UklG' }),
        file('text/markdown', { type: 'data', data: 'I2E=' }),
        file('text/plain', { type: 'text', text: 'plain' }),
        file('application/pdf', { type: 'data', data: 'JVBERg==' }, { filename: 'a.pdf' }),
        file('application/pdf', { type: 'reference', reference: { orchd: 'file-7' } }),
      ],
    },
  ])['messages'] as { content: unknown }[];
  assert.deepEqual(message?.content, [
    { type: 'text', text: 'See:' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0K', detail: 'low' } },
    { type: 'image_url', image_url: { url: 'https://example.org/a.png' } },
    { type: 'input_audio', input_audio: { data: 'UklG', format: 'wav' } },
    { type: 'text', text: '#a' },
    { type: 'text', text: 'plain' },
    { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==', filename: 'a.pdf' } },
    { type: 'file', file: { file_id: 'file-7' } },
  ]);
  const tool = { type: 'tool-result', toolCallId: 'c', toolName: 't' } as const;
  const value = [
    { type: 'text', text: 'a map' },
    file('image/png', { type: 'data', data: 'iVBORw==' }),
  ] as never;
  const [result] = payloadOf([{ role: 'tool', content: [{ ...tool, output: { type: 'content', value } }] }])[
    'messages'
  ] as { content: unknown }[];
  assert.deepEqual(result?.content, [
    { type: 'text', text: 'a map' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } },
  ]);
});

test('a file that no payload can hold is an error, not a gap in the prompt', () => {
  const prompt = (data: object, mediaType: string) =>
    [{ role: 'user', content: [{ type: 'file', mediaType, data }] }] as LanguageModelV4Prompt;
  const reference = { type: 'reference', reference: { openai: 'file-7' } };
  assert.throws(
    () => payloadOf(prompt(reference, 'application/pdf')),
    /does not support files that are not stored/,
  );
  const video = { type: 'data', data: 'AAAA' };
  assert.throws(() => payloadOf(prompt(video, 'video')), /does not support files of the type "video"/);
});

test('tools, the choice among them, and the form of the answer are those of OpenAI', () => {
  const inputSchema = { type: 'object', properties: {} } as const;
  const tools = [
    { type: 'function', name: 'look', description: 'Looks', inputSchema, strict: true },
  ] as const;
  const { messages: _, ...payload } = payloadOf(HELLO, {
    tools: [...tools],
    toolChoice: { type: 'tool', toolName: 'look' },
    responseFormat: { type: 'json', name: 'foxes', description: 'Foxes', schema: inputSchema },
  });
  assert.deepEqual(payload, {
    tools: [
      {
        type: 'function',
        function: { name: 'look', description: 'Looks', parameters: inputSchema, strict: true },
      },
    ],
    tool_choice: { type: 'function', function: { name: 'look' } },
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'foxes', description: 'Foxes', schema: inputSchema, strict: true },
    },
  });
  for (const type of ['auto', 'none', 'required'] as const)
    assert.equal(payloadOf(HELLO, { tools: [...tools], toolChoice: { type } })['tool_choice'], type);
  const plain = payloadOf(HELLO, { toolChoice: { type: 'auto' }, responseFormat: { type: 'json' } });
  assert.deepEqual(plain, { messages: HELLO_MESSAGES, response_format: { type: 'json_object' } });
  assert.deepEqual(payloadOf(HELLO, { responseFormat: { type: 'text' } }), { messages: HELLO_MESSAGES });
});

test('providerOptions.orchd adds fields to the payload, to messages, and to the job', () => {
  const { payload, settings, warnings } = callRequest({
    prompt: [{ role: 'system', content: 'Hi', providerOptions: { orchd: { name: 'boss' } } }],
    headers: {
      'user-agent': 'ai/7',
      'X-Orchd-Session': 's1',
      'x-orchd-priority': 'batch',
      'x-none': undefined,
    },
    providerOptions: {
      orchd: { run: 'r', payload: { min_p: 0.1 }, job: { priority: 'interactive', deadline_ms: 5 } },
    },
  });
  assert.deepEqual(payload, { messages: [{ role: 'system', content: 'Hi', name: 'boss' }], min_p: 0.1 });
  assert.deepEqual(settings, {
    run: 'r',
    payload: { min_p: 0.1 },
    job: { session_id: 's1', priority: 'interactive', deadline_ms: 5 },
  });
  assert.deepEqual(warnings.list, []);
});

test('nothing is dropped silently: whatever is not passed on is a warning, once', () => {
  const inputSchema = { type: 'object' } as const;
  assert.deepEqual(featuresOf({ providerOptions: { orchd: { priorty: 'x' }, openai: { user: 'u' } } }), [
    'providerOptions.openai',
    'providerOptions.orchd.priorty',
  ]);
  assert.deepEqual(featuresOf({ headers: { 'X-Other': '1' } }), ['header x-other']);
  assert.deepEqual(featuresOf({ novelty: 1 } as never), ['novelty']);
  assert.deepEqual(
    featuresOf({
      tools: [
        { type: 'provider', id: 'openai.web_search', name: 'web', args: {} },
        { type: 'function', name: 'look', inputSchema, inputExamples: [{ input: {} }] },
      ],
    }),
    ['provider tool openai.web_search', 'inputExamples of tools'],
  );
  const named = {
    type: 'file',
    mediaType: 'text/plain',
    filename: 'a.txt',
    data: { type: 'text', text: 'a' },
  } as const;
  assert.deepEqual(featuresOf({ prompt: [{ role: 'user', content: [named] }] }), [
    'names of files that are images, sounds or texts',
  ]);
  const cached = { anthropic: { cacheControl: { type: 'ephemeral' } } };
  const text = { type: 'text', text: 'a', providerOptions: cached } as const;
  const prompt: LanguageModelV4Prompt = [
    { role: 'user', content: [text, text] },
    { role: 'assistant', content: [text, { type: 'custom', kind: 'a.b' }] },
    { role: 'tool', content: [{ type: 'tool-approval-response', approvalId: 'a', approved: true }] },
  ];
  assert.deepEqual(featuresOf({ prompt }), [
    'providerOptions.anthropic',
    'custom of an assistant',
    'tool-approval-response',
  ]);
});
