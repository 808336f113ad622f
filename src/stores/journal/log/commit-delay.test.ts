import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommitDelay } from './commit-delay.ts';

test('the first frame does not wait; after a frame with 20 batch jobs the next one waits until 20 more are appended', () => {
  const delay = new CommitDelay();
  assert.equal(delay.waitMs(100), 0, 'the first frame does not wait');
  delay.committed(20, 100);
  delay.appended(19);
  assert.equal(delay.waitMs(100.5), 1.5);
  delay.appended(1);
  assert.equal(delay.waitMs(100.5), 0);
});

test('the wait ends after 2 ms (MAX_DELAY_MS) if fewer jobs arrive', () => {
  const delay = new CommitDelay();
  delay.committed(20, 100);
  delay.appended(3);
  assert.equal(delay.waitMs(102), 0);
});

test('after a frame with 3 batch jobs the next one does not wait, even if the frame before had 20', () => {
  const delay = new CommitDelay();
  delay.committed(20, 100);
  delay.committed(3, 100);
  assert.equal(delay.waitMs(100), 0);
});
