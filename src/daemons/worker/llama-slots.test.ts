import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Slots } from './llama-slots.ts';

const named = (...names: string[]): Slots => new Slots(names as never[]);

test('a session finds its own sequence, others take an unused one, then the one that is idle for longest', () => {
  const slots = named('a', 'b', 'c');
  const [first, second] = [slots.take('s1'), slots.take('s2')];
  assert.deepEqual([first.sequence, second.sequence], ['a', 'b']);
  slots.give(second);
  slots.give(first);
  assert.equal(slots.take('s1'), first);
  assert.equal(slots.take('s3').sequence, 'c', 'never used');
  slots.give(first);
  assert.equal(slots.take('s4'), second, 'given back before the other');
});

test('one without a session leaves nothing that a session would look for', () => {
  const slots = named('a');
  slots.give(slots.take('s1'));
  const slot = slots.take(undefined);
  assert.equal(slot.session, undefined);
  assert.throws(() => slots.take('s1'), /more executions than sequences/);
});
