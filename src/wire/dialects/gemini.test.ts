import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readInferenceRequest } from '../../daemons/execution/inference-request.ts';
import { geminiBody } from './gemini.ts';

const body = (given: object) => geminiBody(readInferenceRequest({ job_id: 'j', ...given }, 'any'));
const config = (given: object) => body({ prompt: 'x', ...given })['generationConfig'];

const PNG = 'data:image/png;base64,iVBORw0KGgo=';
const PDF = 'data:application/pdf;base64,JVBERi0=';
const parameters = { type: 'object', properties: { far: { type: 'boolean' } } };
const schema = { type: 'object', properties: { ok: { type: 'boolean' } } };
const tools = [{ type: 'function', function: { name: 'look', description: 'Looks', parameters } }];
const call = (id: string, given: string, more: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'look', arguments: given },
  ...more,
});
const signed = { extra_content: { google: { thought_signature: 'c2ln' } } };

const CONVERSATION = {
  messages: [
    { role: 'developer', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: PNG } },
        { type: 'file', file: { file_data: PDF, filename: 'a.pdf' } },
      ],
    },
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [call('c1', '{"far":true}', signed), call('c2', '')],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
    { role: 'tool', tool_call_id: 'c2', content: [{ type: 'text', text: 'a dog' }] },
    { role: 'user', content: 'And now?' },
  ],
  tools,
  tool_choice: { type: 'function', function: { name: 'look' } },
};

test('a conversation for generateContent', () => {
  assert.deepEqual(body(CONVERSATION), {
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    contents: [
      {
        role: 'user',
        parts: [
          { text: 'What is this?' },
          { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } },
          { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
        ],
      },
      {
        role: 'model',
        parts: [
          { text: 'I look.' },
          { functionCall: { id: 'c1', name: 'look', args: { far: true } }, thoughtSignature: 'c2ln' },
          { functionCall: { id: 'c2', name: 'look', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'c1', name: 'look', response: { output: 'a cat' } } },
          { functionResponse: { id: 'c2', name: 'look', response: { output: 'a dog' } } },
          { text: 'And now?' },
        ],
      },
    ],
    tools: [
      {
        functionDeclarations: [{ name: 'look', description: 'Looks', parametersJsonSchema: parameters }],
      },
    ],
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look'] } },
  });
});

test('a prompt is one message of a user, and nothing else is sent', () => {
  assert.deepEqual(body({ prompt: 'Hello' }), { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] });
});

test('what is set about the answer becomes the generationConfig', () => {
  const given = {
    max_tokens: 100,
    temperature: 1.5,
    top_p: 0.5,
    top_k: 3,
    seed: 7,
    stop: ['END', 'STOP'],
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
  };
  assert.deepEqual(config(given), {
    maxOutputTokens: 100,
    temperature: 1.5,
    topP: 0.5,
    topK: 3,
    seed: 7,
    stopSequences: ['END', 'STOP'],
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
  });
  assert.equal(config({ max_tokens: null, temperature: null, top_k: null }), undefined);
});

const FORMATS: [string, object, unknown][] = [
  ['text', { response_format: { type: 'text' } }, undefined],
  ['JSON', { response_format: { type: 'json_object' } }, { responseMimeType: 'application/json' }],
  [
    'JSON with a schema',
    { response_format: { type: 'json_schema', json_schema: { name: 'reply', schema } } },
    { responseMimeType: 'application/json', responseJsonSchema: schema },
  ],
];
for (const [what, given, expected] of FORMATS)
  test(`an answer that is to be ${what}`, () => assert.deepEqual(config(given), expected));

const THINKING: [string, object, object][] = [
  ['an effort', { reasoning_effort: 'low' }, { thinkingLevel: 'low', includeThoughts: true }],
  [
    'a budget',
    { thinking: { type: 'enabled', budget_tokens: 1024 } },
    { thinkingBudget: 1024, includeThoughts: true },
  ],
  ['its own choice', { thinking: { type: 'adaptive' } }, { thinkingBudget: -1, includeThoughts: true }],
  ['nothing', { thinking: { type: 'disabled' } }, { thinkingBudget: 0 }],
];
for (const [what, given, thinkingConfig] of THINKING)
  test(`a model that thinks with ${what}`, () => assert.deepEqual(config(given), { thinkingConfig }));

for (const [choice, mode] of [
  ['auto', 'AUTO'],
  ['none', 'NONE'],
  ['required', 'ANY'],
]) {
  test(`the choice of tools "${choice}" is the mode ${mode}`, () => {
    const { toolConfig } = body({ prompt: 'x', tools, tool_choice: choice });
    assert.deepEqual(toolConfig, { functionCallingConfig: { mode } });
  });
}

const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const UNSUPPORTED: [string, object][] = [
  ['a bias', { prompt: 'x', logit_bias: { 1: 1 } }],
  ['another penalty', { prompt: 'x', repetition_penalty: 1.1 }],
  ['an effort that it does not know', { prompt: 'x', reasoning_effort: 'xhigh' }],
  [
    'an effort beside a budget',
    { prompt: 'x', reasoning_effort: 'low', thinking: { type: 'enabled', budget_tokens: 9 } },
  ],
  ['one call at a time', { prompt: 'x', tools, parallel_tool_calls: false }],
  ['embeddings', { input: 'x' }],
  ['a text to go on with', { prompt: 'x', raw_prompt: true }],
  ['sound', user({ type: 'input_audio', input_audio: {} })],
  ['an image elsewhere', user({ type: 'image_url', image_url: { url: 'https://example.org/cat.jpg' } })],
  [
    'an image of another kind',
    user({ type: 'image_url', image_url: { url: 'data:image/tiff;base64,AA==' } }),
  ],
  ['a file of another provider', user({ type: 'file', file: { file_id: 'f' } })],
];
for (const [what, given] of UNSUPPORTED)
  test(`${what} is refused as UNSUPPORTED before anything is sent`, () =>
    assert.throws(() => body(given), { code: 'UNSUPPORTED' }));

const asked = { role: 'assistant', tool_calls: [call('c', '{}')] };
const answer = { role: 'tool', tool_call_id: 'c', content: 'a cat' };
const INVALID: [string, object[]][] = [
  ['arguments that are no JSON', [{ role: 'assistant', tool_calls: [call('c', '{"far":')] }]],
  ['arguments that are no object', [{ role: 'assistant', tool_calls: [call('c', '[1]')] }]],
  ['a result without its call', [answer]],
  ['a result before its call', [answer, asked]],
  ['a second result of one call', [asked, answer, answer]],
];
for (const [what, messages] of INVALID)
  test(`${what} is INVALID_PARAMS`, () =>
    assert.throws(() => body({ messages }), {
      code: 'INVALID_PARAMS',
      message: /^"messages\.\d\.content" /,
    }));
