import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_WAIT_MS, StateFeed } from './state-feed.ts';

/** Timers that the test fires by hand. */
function manualTimers() {
  const waiting = new Set<{ ms: number; run: () => void }>();
  return {
    waiting,
    after(ms: number, run: () => void) {
      const entry = { ms, run };
      waiting.add(entry);
      return () => void waiting.delete(entry);
    },
    soon: (run: () => void) => run(),
  };
}

test('a wait for the current version ends with the next version, with its timeout, or with close', async () => {
  const timers = manualTimers();
  const seen: number[] = [];
  const feed = new StateFeed(timers, (version) => seen.push(version));
  feed.startAt(7);
  const next = feed.waitForChange(7, 1000);
  assert.equal(timers.waiting.size, 1);
  feed.changed();
  await next;
  assert.deepEqual([feed.version, seen, timers.waiting.size], [8, [8], 0]);
  const late = feed.waitForChange(8, 10 * MAX_WAIT_MS);
  const [timer] = timers.waiting;
  assert.equal(timer?.ms, MAX_WAIT_MS);
  timer?.run();
  await late;
  const closing = feed.waitForChange(8, 1000);
  feed.close();
  await closing;
  await feed.waitForChange(8, 1000);
});

test('a wait for another version, without a timeout, or beyond the limit returns at once', async () => {
  const timers = manualTimers();
  const feed = new StateFeed(timers, () => undefined);
  feed.startAt(7);
  await Promise.all([
    feed.waitForChange(6, 1000),
    feed.waitForChange(undefined, 1000),
    feed.waitForChange(7, 0),
  ]);
  assert.equal(timers.waiting.size, 0);
  const many = Array.from({ length: 300 }, () => feed.waitForChange(7, 1000));
  assert.equal(timers.waiting.size, 256);
  feed.changed();
  await Promise.all(many);
});
