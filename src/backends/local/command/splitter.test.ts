import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { MAX_PIECE_BYTES, Splitter } from './splitter.ts';

/** The pieces of `bytes` when they arrive in chunks of these sizes, repeated. */
function pieces(
  bytes: Buffer,
  split: 'line' | 'space' = 'line',
  sizes: readonly number[] = [bytes.length],
): Buffer[] {
  const splitter = new Splitter(split);
  const found: Buffer[] = [];
  let at = 0;
  for (let turn = 0; at < bytes.length; turn++) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? 1);
    found.push(...splitter.push(bytes.subarray(at, at + size)));
    assert.ok(splitter.pending < MAX_PIECE_BYTES);
    at += size;
  }
  return [...found, ...splitter.end()];
}

const texts = (found: readonly Buffer[]): string[] => found.map((piece) => piece.toString());

describe('lines', () => {
  test('keep their newline; the rest at the end is the last piece', () => {
    assert.deepEqual(texts(pieces(Buffer.from('a\n\nb\r\nc'))), ['a\n', '\n', 'b\r\n', 'c']);
    assert.deepEqual(pieces(Buffer.from('')), []);
  });

  test('of exactly MAX_PIECE_BYTES are one piece', () => {
    const line = `${'x'.repeat(MAX_PIECE_BYTES - 1)}\n`;
    assert.deepEqual(texts(pieces(Buffer.from(`${line}y`))), [line, 'y']);
  });

  test('that are longer are cut between characters', () => {
    // The character that does not fit begins 1, 2 or 3 bytes before the limit.
    for (const short of [1, 2, 3]) {
      const head = 'x'.repeat(MAX_PIECE_BYTES - short);
      const found = texts(pieces(Buffer.from(`${head}🙂tail\n`)));
      assert.deepEqual(found, [head, '🙂tail\n']);
    }
    const head = `${'x'.repeat(MAX_PIECE_BYTES - 4)}🙂`;
    assert.deepEqual(texts(pieces(Buffer.from(`${head}tail`))), [head, 'tail']);
  });

  test('that are not UTF-8 are cut at the limit', () => {
    const found = pieces(Buffer.alloc(2 * MAX_PIECE_BYTES + 5, 0x80));
    assert.deepEqual(
      found.map(({ length }) => length),
      [MAX_PIECE_BYTES, MAX_PIECE_BYTES, 5],
    );
  });
});

test('words keep the space after them', () => {
  assert.deepEqual(texts(pieces(Buffer.from('a b  c\nd'), 'space')), ['a ', 'b ', ' ', 'c\n', 'd']);
});

/** Bytes that are hard to cut: long runs, multi-byte characters, halves of them, newlines. */
const part = fc.oneof(
  fc.constantFrom('\n', ' ', 'a', '🙂', 'é', '€').map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(0xc3, 0xe2, 0xf0, 0x82, 0xff).map((byte) => Buffer.from([byte])),
  fc
    .integer({ min: MAX_PIECE_BYTES - 6, max: MAX_PIECE_BYTES + 2 })
    .map((length) => Buffer.alloc(length, 'z')),
);
const stream = fc.array(part, { maxLength: 20 }).map((parts) => Buffer.concat(parts));
const split = fc.constantFrom('line' as const, 'space' as const);
const sizes = fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 5 });

test('pieces do not depend on the chunks, and decoded one by one they give the whole text', () => {
  fc.assert(
    fc.property(stream, split, sizes, (bytes, how, chunks) => {
      const found = pieces(bytes, how);
      assert.deepEqual(pieces(bytes, how, chunks), found);
      assert.equal(texts(found).join(''), bytes.toString());
      assert.ok(found.every(({ length }) => length > 0 && length <= MAX_PIECE_BYTES));
    }),
    { numRuns: 500 },
  );
});
