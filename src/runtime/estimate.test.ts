import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SliceMeter } from '../kit/slices.ts';
import { MAX_TOKENS } from '../model/submit.ts';
import { estimateInSlices, estimateTokens } from './estimate.ts';

test('the texts of prompts, messages and inputs are counted; other payloads are not', () => {
  const text = 'x'.repeat(400);
  assert.deepEqual(estimateTokens({ prompt: text, max_tokens: 50 }), { contextTokens: 150, tokens: 150 });
  assert.deepEqual(estimateTokens(text), { contextTokens: 101, tokens: 356 });
  const parts = [{ role: 'user', content: [{ type: 'text', text }, { type: 'image_url' }] }];
  assert.deepEqual(estimateTokens({ messages: parts, max_tokens: 1 }), { contextTokens: 105, tokens: 105 });
  assert.deepEqual(estimateTokens({ input: [text, text] }), { contextTokens: 200, tokens: 200 });
  for (const payload of [null, 7, {}, { argv: ['x'] }]) assert.equal(estimateTokens(payload), undefined);
});

test('an invalid max_tokens counts as none', () => {
  const usual = estimateTokens({ prompt: 'x' });
  for (const max_tokens of [-1, -1_000_000, 0.5, Number.NaN])
    assert.deepEqual(estimateTokens({ prompt: 'x', max_tokens }), usual);
});

test('max_tokens counts as MAX_TOKENS at most', () => {
  const most = estimateTokens({ prompt: 'x', max_tokens: MAX_TOKENS });
  for (const max_tokens of [MAX_TOKENS + 1, 1e15, 1e300])
    assert.deepEqual(estimateTokens({ prompt: 'x', max_tokens }), most);
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
