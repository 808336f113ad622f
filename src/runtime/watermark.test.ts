import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Watermark } from './watermark.ts';

function waiting(seqs: readonly number[]): { watermark: Watermark; called: number[] } {
  const watermark = new Watermark(0);
  const called: number[] = [];
  for (const seq of seqs) {
    const done = (): void => {
      assert.ok(watermark.durable >= seq, 'a waiter is called only when its sequence counts as durable');
      called.push(seq);
    };
    watermark.after(seq, { done, fail: () => assert.fail() });
  }
  return { watermark, called };
}

test('a flush that covers many commits is reported in portions of whole commits, in order', () => {
  const { watermark, called } = waiting([2, 4, 4, 6, 30, 31, 40]);
  assert.equal(watermark.rise(35, 5), false);
  assert.deepEqual([called, watermark.durable], [[2, 4, 4], 4]);
  assert.equal(watermark.rise(35, 5), false);
  assert.deepEqual([called, watermark.durable], [[2, 4, 4, 6], 6]);
  assert.equal(watermark.rise(35, 5), false, 'a commit of more changes is a portion of its own');
  assert.deepEqual([called, watermark.durable], [[2, 4, 4, 6, 30], 30]);
  assert.equal(watermark.rise(35, 5), true);
  assert.deepEqual([called, watermark.durable], [[2, 4, 4, 6, 30, 31], 35]);
});

test('who waits for a change that is durable but not reported yet is called after those before', () => {
  const { watermark, called } = waiting([2, 8]);
  assert.equal(watermark.rise(8, 2), false);
  watermark.after(8, { done: () => called.push(-8), fail: () => assert.fail() });
  assert.deepEqual(called, [2]);
  assert.equal(watermark.rise(8, 2), true);
  assert.deepEqual(called, [2, 8, -8]);
});
