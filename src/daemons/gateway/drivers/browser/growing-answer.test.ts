import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GrowingAnswer } from './growing-answer.ts';

function emittedOf(looks: readonly string[], end: string): string[] {
  const pieces: string[] = [];
  const answer = new GrowingAnswer((text) => pieces.push(text));
  for (const look of looks) answer.look(look);
  answer.end(end);
  return pieces;
}

test('text is passed on once two looks agree about it, and the pieces are the answer', () => {
  assert.deepEqual(emittedOf(['', 'a', 'ab', 'abc'], 'abcd'), ['a', 'b', 'cd']);
  assert.deepEqual(emittedOf([], 'whole'), ['whole']);
  assert.deepEqual(emittedOf(['a', 'a', 'a'], 'a'), ['a']);
});

test('a cursor at the end of the text is never passed on', () => {
  assert.deepEqual(emittedOf(['He▍', 'Hello▍', 'Hello you▍'], 'Hello you'), ['He', 'llo', ' you']);
});

test('nothing is passed on after the page has rewritten what was passed on', () => {
  assert.deepEqual(emittedOf(['ab', 'ab', 'xy', 'xyz', 'xyz'], 'xyz'), ['ab']);
  assert.deepEqual(emittedOf(['ab', 'ab', 'a', 'a', 'ac'], 'acd'), ['ab']);
  assert.deepEqual(emittedOf(['ab', 'ab', ''], 'ab'), ['ab'], 'a look in between that shows nothing');
});

test('the halves of a character stay together', () => {
  assert.deepEqual(emittedOf(['😀', '😁'], '😁!'), ['😁!']);
});
