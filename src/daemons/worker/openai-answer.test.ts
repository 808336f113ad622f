import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Piece } from './engine.ts';
import { Answer } from './openai-answer.ts';

const chunk = (choice: object, more: object = {}): string => JSON.stringify({ choices: [choice], ...more });

test('text, finish and usage are gathered; what is empty is no piece', () => {
  const pieces: Piece[] = [];
  const answer = new Answer((piece) => pieces.push(piece));
  answer.take(chunk({ delta: { role: 'assistant', content: '' } }));
  answer.take(chunk({ delta: { content: 'a' } }));
  assert.equal(answer.finished, false);
  answer.take(chunk({ delta: {}, finish_reason: 'length' }));
  answer.take(JSON.stringify({ choices: [], usage: { prompt_tokens: 2, completion_tokens: 1 } }));
  assert.equal(answer.finished, true);
  assert.deepEqual(pieces, [{ text: 'a' }]);
  assert.deepEqual(answer.result(), {
    text: 'a',
    finish_reason: 'length',
    usage: { prompt_tokens: 2, completion_tokens: 1 },
  });
});

const broken: [string, string][] = [
  ['no JSON', '{'],
  ['a list', '[]'],
  ['no choices', '{}'],
  ['text that is none', chunk({ delta: { content: 7 } })],
  ['calls that are no list', chunk({ delta: { tool_calls: {} } })],
  ['a call far off', chunk({ delta: { tool_calls: [{ index: 5 }] } })],
  ['a call before the first', chunk({ delta: { tool_calls: [{ index: -1 }] } })],
];
for (const [what, data] of broken) {
  test(`${what} is a breach of the contract`, () => {
    const answer = new Answer(() => assert.fail('nothing may be said of it'));
    assert.throws(() => answer.take(data), { code: 'WORKER_PROTOCOL' });
  });
}

test('a finish that is not known is a stop, and numbers that are none are no usage', () => {
  const answer = new Answer(() => undefined);
  answer.take(chunk({ finish_reason: 'constructor' }, { usage: { prompt_tokens: -1 } }));
  assert.deepEqual(answer.result(), { text: '', finish_reason: 'stop' });
});
