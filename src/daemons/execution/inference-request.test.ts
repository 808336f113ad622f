import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checker } from '../../kit/check.ts';
import { ExecuteRequest } from '../../model/worker-wire.ts';
import { readInferenceRequest } from './inference-request.ts';

/** The route checks a body against this schema before it calls readInferenceRequest(). */
const check = checker(ExecuteRequest);

const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };

const INVALID: [string, object, RegExp][] = [
  ['a body without a prompt', {}, /exactly one of/],
  ['a prompt together with an input', { prompt: 'a', input: 'b' }, /exactly one of/],
  ['no message', { messages: [] }, /"messages" is empty/],
  ['an unknown role', { messages: [{ role: 'robot', content: 'x' }] }, /"messages\.0\.role"/],
  [
    'a role that is an inherited property',
    { messages: [{ role: 'constructor', content: 'x' }] },
    /"messages\.0\.role"/,
  ],
  ['content that is not text', { messages: [{ role: 'user', content: 7 }] }, /must be a text or a list/],
  ['a picture', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /may only have parts/],
  ['several prompts', { prompt: ['a', 'b'] }, /one prompt is answered at a time/],
  ['no text to embed', { input: [] }, /"input" is empty/],
  ['too many texts', { input: new Array(2049).fill('a') }, /more than 2048/],
  ['max_tokens 0', { prompt: 'a', max_tokens: 0 }, /"max_tokens" must be at least 1/],
  ['a fraction of a token', { prompt: 'a', max_tokens: 1.5 }, /max_tokens/],
  ['a temperature above 2', { prompt: 'a', temperature: 3 }, /"temperature" must be from 0 to 2/],
  ['a tool without a name', { prompt: 'a', tools: [{ type: 'function' }] }, /"tools\.0" must be a function/],
  ['a choice without tools', { prompt: 'a', tool_choice: 'required' }, /"tool_choice" needs tools/],
  [
    'a choice of another tool',
    { prompt: 'a', tools: [tool], tool_choice: { function: { name: 'other' } } },
    /names no tool/,
  ],
  [
    'an unknown response_format',
    { prompt: 'a', response_format: { type: 'xml' } },
    /"response_format" is not known/,
  ],
  [
    'a json_schema without a schema',
    { prompt: 'a', response_format: { type: 'json_schema' } },
    /must be a JSON schema/,
  ],
];

for (const [what, body, says] of INVALID) {
  test(`${what} is refused with a message`, () => {
    assert.throws(() => readInferenceRequest(check({ job_id: 'j', ...body })), says);
  });
}

test('texts, text parts, tool calls and tool results of a conversation are read', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } };
  const { work } = readInferenceRequest({
    job_id: 'j',
    messages: [
      { role: 'developer', content: 'rules' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'found' },
    ],
  });
  assert.deepEqual(work.kind === 'chat' && work.messages.map(({ role, text }) => [role, text]), [
    ['system', 'rules'],
    ['user', 'ab'],
    ['assistant', ''],
    ['tool', 'found'],
  ]);
  assert.deepEqual(work.kind === 'chat' && work.messages[2]?.calls, [
    { id: 'c1', name: 'look', arguments: '{}' },
  ]);
});

test('null counts as absent, and a single stop is a list of one', () => {
  const request = readInferenceRequest({
    job_id: 'j',
    prompt: 'p',
    max_tokens: null,
    seed: null,
    stop: 'x',
    temperature: null,
  });
  assert.deepEqual(
    [request.maxTokens, request.seed, request.temperature, request.stop],
    [undefined, undefined, undefined, ['x']],
  );
  assert.deepEqual([request.toolChoice, request.format], ['none', 'any']);
  assert.equal(readInferenceRequest({ job_id: 'j', prompt: 'p', tools: [tool] }).toolChoice, 'auto');
});
