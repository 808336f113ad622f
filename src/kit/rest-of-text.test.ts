import assert from 'node:assert/strict';
import { test } from 'node:test';
import { restOf } from './rest-of-text.ts';

test('the rest of a text is what was not told of it', () => {
  assert.equal(restOf('one two', ''), 'one two');
  assert.equal(restOf('one two', 'one '), 'two');
  assert.equal(restOf('one two', 'one two'), '');
  assert.equal(restOf('one two', 'one two\n'), '');
  assert.equal(restOf('one two', 'three'), undefined);
});

test('a long text that was told to its end has no rest, though it was cut where it is kept', () => {
  const long = 'x'.repeat(300_000);
  assert.equal(restOf(`${long.slice(0, 262_144)}\n[cut]`, long), '');
});
