import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Slots } from './llama-slots.ts';

const named = (...names: string[]): Slots => new Slots(names as never[]);

test('a session gets its own sequence again; others get an unused one, then the one idle for longest', () => {
  const slots = named('a', 'b', 'c');
  const [first, second] = [slots.take('s1'), slots.take('s2')];
  assert.deepEqual([first.sequence, second.sequence], ['a', 'b']);
  slots.release(second);
  slots.release(first);
  assert.equal(slots.take('s1'), first);
  assert.equal(slots.take('s3').sequence, 'c', 'never used');
  slots.release(first);
  assert.equal(slots.take('s4'), second, 'released before the other');
});

test('a request without a session takes the sequence away from its former session', () => {
  const slots = named('a');
  slots.release(slots.take('s1'));
  const slot = slots.take(undefined);
  assert.equal(slot.session, undefined);
  assert.throws(() => slots.take('s1'), /more executions than sequences/);
});
