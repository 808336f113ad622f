import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Transcript } from './transcript.ts';

function sent(...pieces: string[]): Transcript {
  const transcript = new Transcript();
  for (const piece of pieces) assert.equal(transcript.add(piece), piece);
  return transcript;
}

test('every piece is new during the first attempt', () => {
  const transcript = sent('Hello', ', ', 'world');
  assert.equal(transcript.tokens, 3);
  assert.equal(transcript.remainder('Hello, world'), '');
  assert.equal(transcript.remainder('Hello, world!'), '!');
});

test('an attempt that repeats the sent text goes on where the first one stopped, however it cuts the text', () => {
  const transcript = sent('Hello', ', wor');
  transcript.restart();
  assert.deepEqual(
    ['He', 'llo, ', 'world', '!'].map((piece) => transcript.add(piece)),
    ['', '', 'ld', '!'],
  );
  assert.equal(transcript.tokens, 4);
  assert.equal(transcript.remainder(undefined), '');
});

test('an attempt that contradicts the sent text is refused', () => {
  const transcript = sent('Hello');
  transcript.restart();
  assert.equal(transcript.add('Hel'), '');
  assert.equal(transcript.add('p'), undefined);
  const shorter = sent('Hello');
  shorter.restart();
  assert.equal(shorter.add('He'), '');
  assert.equal(shorter.remainder('He'), undefined);
});

test('lost pieces are filled in from the whole text, if there is one', () => {
  const transcript = sent('one ');
  transcript.markGap();
  assert.equal(transcript.add('three '), '');
  assert.equal(transcript.remainder(undefined), undefined);
  assert.equal(transcript.remainder('one two three '), 'two three ');
});

test('a whole text that differs from pieces already sent changes nothing', () => {
  assert.equal(sent('Hello \n').remainder('Hello'), '');
  assert.equal(sent().remainder('Hello'), 'Hello');
});
