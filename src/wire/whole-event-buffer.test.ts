import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WholeEventBuffer } from './whole-event-buffer.ts';

const TEXT = 'data: {"a":1}\n\n: note\n\ndata: one\ndata: two\n\ndata: Zürich 🦊\n\n';

test('all events are passed on, and only complete ones, however the stream is cut', () => {
  const bytes = Buffer.from(TEXT);
  for (let size = 1; size <= bytes.length; size++) {
    const passed: Buffer[] = [];
    const events = new WholeEventBuffer((piece) => passed.push(piece));
    for (let at = 0; at < bytes.length; at += size) {
      events.push(bytes.subarray(at, at + size));
      const text = Buffer.concat(passed).toString();
      assert.ok(text === '' || text.endsWith('\n\n'), JSON.stringify(text));
    }
    assert.equal(Buffer.concat(passed).toString(), TEXT, `in pieces of ${size}`);
  }
});

test('an incomplete event at the end is not passed on', () => {
  const passed: string[] = [];
  const events = new WholeEventBuffer((piece) => passed.push(piece.toString()));
  events.push(Buffer.from('data: 1\n\ndata: {"ha'));
  events.push(Buffer.from('lf\n'));
  assert.deepEqual(passed, ['data: 1\n\n']);
});
