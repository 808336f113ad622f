import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyPieces } from './body-pieces.ts';

/** The bytes of memory that buffers keep: all of what each one is a part of. */
const keptBy = (buffers: readonly Buffer[]): number =>
  [...new Set(buffers.map(({ buffer }) => buffer))].reduce((sum, { byteLength }) => sum + byteLength, 0);

/** Pieces of these sizes, each a part of a read of 64 KiB, as the parser of HTTP gives them. */
function bodyOf(sizes: readonly number[]): { readonly pieces: BodyPieces; readonly sent: Buffer } {
  const pieces = new BodyPieces();
  const sent: Buffer[] = [];
  for (const [at, size] of sizes.entries()) {
    const piece = Buffer.from(new ArrayBuffer(64 * 1024), 0, size).fill(at % 251);
    sent.push(Buffer.from(piece));
    pieces.add(piece);
  }
  return { pieces, sent: Buffer.concat(sent) };
}

test('a body in pieces of one byte takes at most twice its bytes, in few buffers', () => {
  const { pieces, sent } = bodyOf(Array.from({ length: 5000 }, () => 1));
  const taken = pieces.take();
  assert.equal(taken.length, 1);
  assert.ok(keptBy(taken) <= 2 * sent.length, `${keptBy(taken)} bytes`);
  assert.deepEqual(Buffer.concat(taken), sent);
});

test('pieces of all sizes keep their order and their bytes', () => {
  const sizes = [0, 1, 40_000, 3, 31_000, 31_000, 31_000, 1, 1, 65_536, 65_536, 32_767, 32_769, 0, 7];
  for (let from = 0; from < sizes.length; from++) {
    const { pieces, sent } = bodyOf(sizes.slice(from));
    const taken = pieces.take();
    assert.deepEqual(Buffer.concat(taken), sent);
    assert.ok(keptBy(taken) <= 2 * sent.length + 65_536, `${keptBy(taken)} for ${sent.length}`);
  }
});

test('a body of one piece is not copied, and a cleared one keeps nothing', () => {
  const piece = Buffer.from('{}');
  const pieces = new BodyPieces();
  pieces.add(piece);
  assert.equal(pieces.take()[0], piece);
  pieces.clear();
  assert.deepEqual(pieces.take(), []);
});
