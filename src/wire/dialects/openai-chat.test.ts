import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnswerPiece } from '../../model/inference.ts';
import { StreamedAnswer } from './openai-chat.ts';

const chunk = (choice: object, more: object = {}): string => JSON.stringify({ choices: [choice], ...more });

test('text, finish reason and usage are collected; empty text is not emitted', () => {
  const pieces: AnswerPiece[] = [];
  const answer = new StreamedAnswer({ emit: (piece) => pieces.push(piece), noteUsage: () => undefined });
  answer.addChunk(chunk({ delta: { role: 'assistant', content: '' } }));
  answer.addChunk(chunk({ delta: { content: 'a' } }));
  assert.equal(answer.finished, false);
  answer.addChunk(chunk({ delta: {}, finish_reason: 'length' }));
  answer.addChunk(JSON.stringify({ choices: [], usage: { prompt_tokens: 2, completion_tokens: 1 } }));
  assert.equal(answer.finished, true);
  assert.deepEqual(pieces, [{ text: 'a' }]);
  assert.deepEqual(answer.result(), {
    text: 'a',
    finish_reason: 'length',
    usage: { prompt_tokens: 2, completion_tokens: 1 },
  });
});

const INVALID_CHUNKS: [string, string][] = [
  ['invalid JSON', '{'],
  ['an array', '[]'],
  ['no choices', '{}'],
  ['content that is not text', chunk({ delta: { content: 7 } })],
  ['tool calls that are not a list', chunk({ delta: { tool_calls: {} } })],
  ['a call index that skips others', chunk({ delta: { tool_calls: [{ index: 5 }] } })],
  ['a negative call index', chunk({ delta: { tool_calls: [{ index: -1 }] } })],
];
for (const [what, data] of INVALID_CHUNKS) {
  test(`a chunk with ${what} is a protocol error`, () => {
    const answer = new StreamedAnswer({
      emit: () => assert.fail('nothing may be emitted'),
      noteUsage: () => undefined,
    });
    assert.throws(() => answer.addChunk(data), { code: 'WORKER_PROTOCOL' });
  });
}

test('an unknown finish reason counts as stop, and invalid usage is ignored', () => {
  const answer = new StreamedAnswer({ emit: () => undefined, noteUsage: () => undefined });
  answer.addChunk(chunk({ finish_reason: 'constructor' }, { usage: { prompt_tokens: -1 } }));
  assert.deepEqual(answer.result(), { text: '', finish_reason: 'stop' });
});
