import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSchema } from './llama-grammar.ts';
import { functionsOf, historyOf } from './llama-history.ts';

const plain = { calls: [], callId: undefined };

test('a history ends with an empty model item for the answer', () => {
  const history = historyOf([
    { ...plain, role: 'system', text: 'rules' },
    { ...plain, role: 'user', text: 'Hello' },
  ]);
  assert.deepEqual(history, [
    { type: 'system', text: 'rules' },
    { type: 'user', text: 'Hello' },
    { type: 'model', response: [] },
  ]);
  assert.equal(historyOf([{ ...plain, role: 'user', text: 'Hello' }], 'tools')[0]?.type, 'system');
});

test('a tool result is stored in its call, and the model continues the same answer', () => {
  const call = { id: 'c1', name: 'look', arguments: '{"far":true}' };
  const history = historyOf([
    { ...plain, role: 'user', text: 'How far?' },
    { ...plain, role: 'assistant', text: 'I look.', calls: [call] },
    { ...plain, role: 'tool', text: '3 miles', callId: 'c1' },
    { ...plain, role: 'tool', text: 'of nobody', callId: 'c9' },
    { ...plain, role: 'assistant', text: 'It is far.' },
  ]);
  assert.deepEqual(history.at(-1), {
    type: 'model',
    response: [
      'I look.',
      { type: 'functionCall', name: 'look', params: { far: true }, result: '3 miles' },
      'It is far.',
    ],
  });
  assert.equal(history.length, 2);
});

test('tools are keyed by name with their parameters', () => {
  const functions = functionsOf([{ name: 'look', description: undefined, parameters: { type: 'object' } }]);
  assert.deepEqual(functions, { look: { params: { type: 'object' } } });
});

test('a schema whose grammar would be too large is refused', () => {
  checkSchema({ type: 'string', maxLength: 4096 }, 'x');
  assert.throws(
    () => checkSchema({ properties: { a: { maxItems: 5000 } } }, 'x'),
    /"maxItems" in "x" may be 4096/,
  );
  assert.throws(() => checkSchema({ enum: ['y'.repeat(70_000)] }, 'x'), /is too large/);
});
