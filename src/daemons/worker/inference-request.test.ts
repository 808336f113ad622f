import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAsk } from './ask.ts';

const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };

const refused: [string, object, RegExp][] = [
  ['nothing to do', {}, /exactly one of/],
  ['two things to do', { prompt: 'a', input: 'b' }, /exactly one of/],
  ['no message', { messages: [] }, /"messages" is empty/],
  ['a role that is none', { messages: [{ role: 'robot', content: 'x' }] }, /"messages\.0\.role"/],
  ['a role of every object', { messages: [{ role: 'constructor', content: 'x' }] }, /"messages\.0\.role"/],
  ['content that is no text', { messages: [{ role: 'user', content: 7 }] }, /must be a text or a list/],
  ['a picture', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /may only have parts/],
  ['several prompts', { prompt: ['a', 'b'] }, /one prompt is answered at a time/],
  ['no text to embed', { input: [] }, /"input" is empty/],
  ['too many texts', { input: new Array(2049).fill('a') }, /more than 2048/],
  ['no token at all', { prompt: 'a', max_tokens: 0 }, /"max_tokens" must be at least 1/],
  ['a fraction of a token', { prompt: 'a', max_tokens: 1.5 }, /max_tokens/],
  ['too hot', { prompt: 'a', temperature: 3 }, /"temperature" must be from 0 to 2/],
  ['a tool without a name', { prompt: 'a', tools: [{ type: 'function' }] }, /"tools\.0" must be a function/],
  ['a choice without tools', { prompt: 'a', tool_choice: 'required' }, /"tool_choice" needs tools/],
  [
    'a choice of another tool',
    { prompt: 'a', tools: [tool], tool_choice: { function: { name: 'other' } } },
    /names no tool/,
  ],
  ['a form that is none', { prompt: 'a', response_format: { type: 'xml' } }, /"response_format" is none/],
  [
    'a schema that is none',
    { prompt: 'a', response_format: { type: 'json_schema' } },
    /must be a JSON schema/,
  ],
];

for (const [what, body, says] of refused) {
  test(`${what} is refused with a sentence`, () => {
    assert.throws(() => readAsk({ job_id: 'j', ...body }), says);
  });
}

test('texts, parts and tool results of a conversation are read', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } };
  const { work } = readAsk({
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

test('what is null is as good as absent, and a single stop is a list of one', () => {
  const ask = readAsk({
    job_id: 'j',
    prompt: 'p',
    max_tokens: null,
    seed: null,
    stop: 'x',
    temperature: null,
  });
  assert.deepEqual(
    [ask.maxTokens, ask.seed, ask.temperature, ask.stop],
    [undefined, undefined, undefined, ['x']],
  );
  assert.deepEqual([ask.toolChoice, ask.format], ['none', 'any']);
  assert.equal(readAsk({ job_id: 'j', prompt: 'p', tools: [tool] }).toolChoice, 'auto');
});
