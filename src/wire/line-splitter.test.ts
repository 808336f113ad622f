import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineSplitter } from './line-splitter.ts';

function split(pieces: readonly (string | Buffer)[], maxBytes = 1000): [number, string | undefined][] {
  const splitter = new LineSplitter(maxBytes);
  const lines = [...pieces.flatMap((piece) => [...splitter.add(Buffer.from(piece))]), ...splitter.end()];
  return lines.map(({ number, bytes }) => [number, bytes?.toString()]);
}

test('lines end with LF, CRLF or the bytes; empty ones count and are left out', () => {
  assert.deepEqual(split(['a\r\n\n  \t\r\nb\nc']), [
    [1, 'a'],
    [4, 'b'],
    [5, 'c'],
  ]);
  assert.deepEqual(split(['a\n']), [[1, 'a']]);
  assert.deepEqual(split([]), []);
});

test('a byte order mark at the beginning is dropped, and one elsewhere is not', () => {
  assert.deepEqual(split(['\ufeff{}\n\ufeff{}\n']), [
    [1, '{}'],
    [2, '\ufeff{}'],
  ]);
  assert.deepEqual(split(['\ufeff\n']), []);
});

test('a line that is too long is reported without its bytes, and the next one is read', () => {
  assert.deepEqual(split(['aaaa', 'aaaa', 'aaaa\nb\n', 'cccccccccc'], 8), [
    [1, undefined],
    [2, 'b'],
    [3, undefined],
  ]);
});

test('the lines do not depend on how the bytes arrive', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', 'ü', '\n', '\r\n', ' ') }),
      fc.integer({ min: 1, max: 7 }),
      (text, size) => {
        const bytes = Buffer.from(text);
        const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
          bytes.subarray(at * size, (at + 1) * size),
        );
        assert.deepEqual(split(pieces), split([bytes]));
      },
    ),
  );
});
