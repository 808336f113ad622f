import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SliceMeter } from '../kit/slices.ts';
import { MAX_TOKENS } from '../model/submit.ts';
import { estimateInSlices, estimateTokens } from './estimate.ts';

test('the texts of prompts, messages and inputs are counted; other payloads are not', () => {
  const text = 'x'.repeat(400);
  const counted = (payload: unknown) => {
    const { contextTokens, tokens } = estimateTokens(payload) ?? {};
    return { contextTokens, tokens };
  };
  assert.deepEqual(counted({ prompt: text, max_tokens: 50 }), { contextTokens: 150, tokens: 150 });
  assert.deepEqual(counted(text), { contextTokens: 101, tokens: 356 });
  const parts = [{ role: 'user', content: [{ type: 'text', text }, { type: 'image_url' }] }];
  assert.deepEqual(counted({ messages: parts, max_tokens: 1 }), { contextTokens: 105, tokens: 105 });
  assert.deepEqual(counted({ input: [text, text] }), { contextTokens: 200, tokens: 200 });
  for (const payload of [null, 7, {}, { argv: ['x'] }]) assert.equal(estimateTokens(payload), undefined);
});

test('an invalid max_tokens counts as none', () => {
  const usual = estimateTokens({ prompt: 'x' });
  for (const max_tokens of [-1, -1_000_000, 0.5, Number.NaN])
    assert.deepEqual(estimateTokens({ prompt: 'x', max_tokens }), usual);
});

test('what bounds the cost of a job is counted: messages, parts that are not text, the most tokens of the answer', () => {
  const bounds = (payload: unknown) => {
    const { messages, images, maxOutput } = estimateTokens(payload) ?? {};
    return { messages, images, maxOutput };
  };
  const parts = [
    { type: 'text', text: 'x' },
    { type: 'image_url', image_url: { url: 'https://x' } },
  ];
  const chat = [
    { role: 'system', content: 'x' },
    { role: 'assistant', tool_calls: [] },
    { role: 'user', content: parts },
  ];
  assert.deepEqual(bounds({ messages: chat, max_tokens: 7 }), { messages: 3, images: 1, maxOutput: 7 });
  assert.deepEqual(bounds({ prompt: 'x' }), { messages: 1, images: undefined, maxOutput: undefined });
  assert.deepEqual(bounds({ input: ['x'] }), { messages: 1, images: undefined, maxOutput: 0 });
  assert.equal(bounds({ prompt: 'x', max_tokens: MAX_TOKENS + 1 }).maxOutput, undefined);
});

test('max_tokens counts as MAX_TOKENS at most', () => {
  const most = estimateTokens({ prompt: 'x', max_tokens: MAX_TOKENS })?.tokens;
  for (const max_tokens of [MAX_TOKENS + 1, 1e15, 1e300])
    assert.equal(estimateTokens({ prompt: 'x', max_tokens })?.tokens, most);
});

test('a payload of many parts is counted in many slices, with the same result', () => {
  const messages = Array.from({ length: 5000 }, (_, at) => ({
    content: [{ text: 'x'.repeat(at % 7) }, 'y'],
  }));
  const counting = estimateInSlices({ messages }, new SliceMeter(1000));
  let slices = 1;
  let step = counting.next();
  for (; !step.done; step = counting.next()) slices++;
  assert.ok(slices > 10, `${slices} slices`);
  assert.deepEqual(step.value, estimateTokens({ messages }));
});
