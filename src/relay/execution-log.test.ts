import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExecutionLog } from './execution-log.ts';

test('a log counts the whole text of its events, not only their pieces of the answer', () => {
  const log = new ExecutionLog(1, 10_000);
  const data = { t: '', i: 0, delta: { tool_calls: ['x'.repeat(1000)] } };
  const text = JSON.stringify(data);
  for (let n = 1; n <= 100; n++) log.append({ n, type: 'token', data, text });
  const kept = log.last - log.firstKept + 1;
  assert.ok(kept >= 4 && kept <= 10, `${kept} events of ${text.length} characters are kept`);
  assert.equal(log.after(log.firstKept - 1, 3000).length, 3);
});

test('an event that was serialized for a follower counts as before', () => {
  const log = new ExecutionLog(1, 1000);
  for (let n = 1; n <= 9; n++) {
    log.append({ n, type: 'token', data: { t: '', i: n, delta: 'x'.repeat(500) } });
    for (const event of log.after(n - 1, 1)) assert.ok(event.data.length > 500);
  }
  assert.equal(log.firstKept, 1);
});
