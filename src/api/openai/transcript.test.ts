import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Transcript } from './transcript.ts';

function shown(...pieces: string[]): Transcript {
  const transcript = new Transcript();
  for (const piece of pieces) assert.equal(transcript.add(piece), piece);
  return transcript;
}

test('every piece is new while nothing was begun again', () => {
  const transcript = shown('Hello', ', ', 'world');
  assert.equal(transcript.tokens, 3);
  assert.equal(transcript.rest('Hello, world'), '');
  assert.equal(transcript.rest('Hello, world!'), '!');
});

test('another attempt that says the same goes on where the first one stopped, however it cuts the text', () => {
  const transcript = shown('Hello', ', wor');
  transcript.again();
  assert.deepEqual(
    ['He', 'llo, ', 'world', '!'].map((piece) => transcript.add(piece)),
    ['', '', 'ld', '!'],
  );
  assert.equal(transcript.tokens, 4);
  assert.equal(transcript.rest(undefined), '');
});

test('another attempt that says something else cannot be shown', () => {
  const transcript = shown('Hello');
  transcript.again();
  assert.equal(transcript.add('Hel'), '');
  assert.equal(transcript.add('p'), undefined);
  const shorter = shown('Hello');
  shorter.again();
  assert.equal(shorter.add('He'), '');
  assert.equal(shorter.rest('He'), undefined);
});

test('what is lost in between comes from the whole text, if there is one', () => {
  const transcript = shown('one ');
  transcript.skip();
  assert.equal(transcript.add('three '), '');
  assert.equal(transcript.rest(undefined), undefined);
  assert.equal(transcript.rest('one two three '), 'two three ');
});

test('a whole text that differs from its pieces changes nothing: they are out', () => {
  assert.equal(shown('Hello \n').rest('Hello'), '');
  assert.equal(shown().rest('Hello'), 'Hello');
});
