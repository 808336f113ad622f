import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventLog } from './event-log.ts';

const numbers = (log: EventLog, from = 0, chars = 1e9): number[] => log.after(from, chars).map(({ n }) => n);

test('events are numbered from 1 and can be read after any number', () => {
  const log = new EventLog(10_000);
  log.append('started', { job_id: 'a' });
  log.append('token', { t: 'x', i: 0 });
  log.append('end', {});
  assert.deepEqual(numbers(log), [1, 2, 3]);
  assert.deepEqual(numbers(log, 1), [2, 3]);
  assert.deepEqual(numbers(log, 3), []);
  assert.match(log.after(1, 1)[0]?.text ?? '', /^id: 2\nevent: token\ndata: {"t":"x","i":0}\n\n$/);
  assert.deepEqual(numbers(log, 0, 1), [1]);
  assert.equal(log.after(2, 1)[0]?.isLast, true);
});

test('nothing comes after the last event', () => {
  const log = new EventLog(10_000);
  log.append('error', {});
  log.append('token', { t: 'late', i: 0 });
  assert.deepEqual(numbers(log), [1]);
  assert.ok(log.closed);
});

test('beyond maxBytes the oldest events are dropped, and the newest is kept however large it is', () => {
  const log = new EventLog(2000);
  for (let i = 0; i < 1000; i++) log.append('token', { t: 'word ', i });
  const kept = numbers(log);
  assert.ok(log.bytes <= 2000 && kept.length > 5, `${log.bytes} bytes, ${kept.length} events`);
  assert.deepEqual([kept.at(0), kept.at(-1)], [1001 - kept.length, 1000]);
  log.append('end', { result: 'x'.repeat(5000) });
  assert.deepEqual(numbers(log), [1001]);
});

test('a watcher is called for every event until it is removed', () => {
  const log = new EventLog(1000);
  let calls = 0;
  const stop = log.watch(() => calls++);
  log.append('started', {});
  stop();
  log.append('end', {});
  assert.equal(calls, 1);
});
