import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_WAIT_MS, StateFeed } from './state-feed.ts';

/** Timers that run when the test says so. */
function handTimers() {
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

test('one who waits for the version there is hears of the next, of the end of the time, or of the close', async () => {
  const timers = handTimers();
  const seen: number[] = [];
  const feed = new StateFeed(timers, (version) => seen.push(version));
  feed.begin(7);
  const next = feed.past(7, 1000);
  assert.equal(timers.waiting.size, 1);
  feed.changed();
  await next;
  assert.deepEqual([feed.version, seen, timers.waiting.size], [8, [8], 0]);
  const late = feed.past(8, 10 * MAX_WAIT_MS);
  const [timer] = timers.waiting;
  assert.equal(timer?.ms, MAX_WAIT_MS);
  timer?.run();
  await late;
  const closing = feed.past(8, 1000);
  feed.close();
  await closing;
  await feed.past(8, 1000);
});

test('who has another version, has no time or is one too many is answered at once', async () => {
  const timers = handTimers();
  const feed = new StateFeed(timers, () => undefined);
  feed.begin(7);
  await Promise.all([feed.past(6, 1000), feed.past(undefined, 1000), feed.past(7, 0)]);
  assert.equal(timers.waiting.size, 0);
  const many = Array.from({ length: 300 }, () => feed.past(7, 1000));
  assert.equal(timers.waiting.size, 256);
  feed.changed();
  await Promise.all(many);
});
