/** Answers of Gemini, where they are not as the fake of test/fakes/providers sends them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnswerPiece } from '../../model/inference.ts';
import type { Usage } from '../../model/worker-wire.ts';
import { GeminiAnswer } from './gemini-answer.ts';

function answered(...chunks: unknown[]) {
  const pieces: AnswerPiece[] = [];
  const usages: (Usage | undefined)[] = [];
  const answer = new GeminiAnswer({
    emit: (piece) => void pieces.push(piece),
    noteUsage: (usage) => void usages.push(usage),
  });
  const add = () => {
    for (const chunk of chunks) answer.add(JSON.stringify(chunk));
  };
  return { answer, pieces, usages, add };
}
const chunk = (parts: object[], more: object = {}, of: object = {}) => ({
  candidates: [{ content: { role: 'model', parts }, ...more }],
  ...of,
});
const counts = (promptTokenCount: number, candidatesTokenCount: number) => ({
  usageMetadata: { promptTokenCount, candidatesTokenCount },
});
const STOP = { finishReason: 'STOP' };

test('thoughts, text and calls come in pieces, and are whole in the result', () => {
  const { answer, pieces, add } = answered(
    chunk([{ text: 'Hm.', thought: true }]),
    chunk([{ text: 'I ' }, { text: 'look.' }]),
    chunk([{ functionCall: { id: 'a', name: 'look', args: { far: true } } }]),
    chunk([{ text: '' }], STOP),
  );
  add();
  const called = {
    id: 'a',
    type: 'function' as const,
    function: { name: 'look', arguments: '{"far":true}' },
  };
  assert.deepEqual(pieces, [
    { reasoning: 'Hm.' },
    { text: 'I ' },
    { text: 'look.' },
    { toolCalls: [{ index: 0, ...called }] },
  ]);
  assert.deepEqual(answer.result(), {
    text: 'I look.',
    finish_reason: 'tool_calls',
    reasoning: 'Hm.',
    tool_calls: [called],
  });
});

test('calls without ids get some that differ, also between answers', () => {
  const ids = (responseId: string) => {
    const call = { functionCall: { name: 'look' } };
    const { answer, add } = answered(chunk([call, call], STOP, { responseId }));
    add();
    const { tool_calls: calls = [] } = answer.result();
    assert.equal(calls[0]?.function.arguments, '{}');
    return calls.map(({ id }) => id);
  };
  assert.equal(new Set([...ids('r1'), ...ids('r2')]).size, 4);
});

test('the signature of a call is kept with it', () => {
  const { answer, add } = answered(
    chunk([{ functionCall: { id: 'a', name: 'look' }, thoughtSignature: 'c2ln' }], STOP),
  );
  add();
  const [call] = answer.result().tool_calls ?? [];
  const extra_content = { google: { thought_signature: 'c2ln' } };
  assert.deepEqual({ ...call, extra_content }, call);
});

test('counts before the finish reason are a part, and the last ones count', () => {
  const { answer, usages, add } = answered(
    chunk([{ text: 'a' }], {}, counts(3, 1)),
    chunk([{ text: 'b' }], STOP, counts(3, 2)),
    counts(3, 5),
  );
  add();
  assert.deepEqual(usages, [
    { prompt_tokens: 3, completion_tokens: 1, partial: true },
    { prompt_tokens: 3, completion_tokens: 2 },
    { prompt_tokens: 3, completion_tokens: 5 },
  ]);
  assert.deepEqual(answer.result().usage, { prompt_tokens: 3, completion_tokens: 5 });
});

const ENDS: [string, string][] = [
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SOMETHING_NEW', 'stop'],
];
for (const [finishReason, expected] of ENDS) {
  test(`an answer that ends with ${finishReason} ends with ${expected}`, () => {
    const { answer, add } = answered(chunk([{ text: 'a' }], { finishReason }));
    add();
    assert.deepEqual(answer.result(), { text: 'a', finish_reason: expected });
  });
}

for (const [finishReason, retriable] of [
  ['MALFORMED_FUNCTION_CALL', true],
  ['UNEXPECTED_TOOL_CALL', true],
  ['MISSING_THOUGHT_SIGNATURE', false],
] as const) {
  test(`an answer that ends with ${finishReason} is a failure, with its tokens`, () => {
    const { answer, usages, add } = answered(chunk([], { finishReason, finishMessage: 'odd' }, counts(3, 1)));
    add();
    assert.deepEqual(usages, [{ prompt_tokens: 3, completion_tokens: 1 }]);
    assert.throws(() => answer.result(), {
      code: 'EXECUTION_FAILED',
      retriable,
      message: `the model failed: ${finishReason}: odd`,
    });
  });
}

test('a prompt that is blocked is a failure that says why, with its tokens, and is not retried', () => {
  const { usages, pieces, add } = answered({
    promptFeedback: { blockReason: 'SAFETY', blockReasonMessage: 'no' },
    ...counts(9, 0),
  });
  assert.throws(add, {
    code: 'EXECUTION_FAILED',
    retriable: false,
    message: 'the provider has blocked the prompt: SAFETY: no',
  });
  assert.deepEqual([usages, pieces], [[{ prompt_tokens: 9, completion_tokens: 0 }], []]);
});

const GARBAGE: [string, unknown][] = [
  ['a list', []],
  ['a text', 'candidates'],
  ['an empty object', {}],
  ['candidates that are no list', { candidates: {} }],
];
for (const [what, value] of GARBAGE)
  test(`${what} in place of a chunk is WORKER_PROTOCOL`, () =>
    assert.throws(answered(value).add, { code: 'WORKER_PROTOCOL' }));

test('what is odd in a chunk is left out', () => {
  const { answer, add } = answered(
    { candidates: [], promptFeedback: {} },
    { candidates: [null] },
    chunk([{ executableCode: {} }, { text: 7 }, { functionCall: 'look' }, { text: 'Yes.' }], STOP),
  );
  add();
  assert.deepEqual(answer.result(), { text: 'Yes.', finish_reason: 'stop' });
});

test('an answer without end does not fill the memory', () => {
  const part = { text: 'x'.repeat(2 ** 20) };
  const { add } = answered(...Array.from({ length: 17 }, () => chunk([part])));
  assert.throws(add, { code: 'WORKER_PROTOCOL', message: /too long/ });
  const calls = Array.from({ length: 129 }, () => ({ functionCall: { name: 'look' } }));
  assert.throws(answered(chunk(calls)).add, { code: 'WORKER_PROTOCOL', message: /too many calls/ });
});
