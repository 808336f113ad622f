import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeFrame, findFrameAfter, frameBytes, readFrame, readHeader, SECTOR_BYTES } from './frame.ts';

const make = (text: string, firstSeq = 7): Buffer =>
  encodeFrame({ firstSeq, count: 3, epoch: 2, at: 1_800_000_000_000, chain: 99, text }).frame;

/** The frame at the start of a segment that was filled with zeros. */
const inZeros = (frame: Buffer, sectors = 4): Buffer =>
  Buffer.concat([frame, Buffer.alloc(sectors * SECTOR_BYTES)]);

const SHORT = make('{"a":1}\n');
const LONG = make(`${'{"prompt":"ein längerer Text"}\n'.repeat(60)}`);

test('a frame is read back as it was written', () => {
  const input = fc.record({
    firstSeq: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    count: fc.nat(0xffffffff),
    epoch: fc.nat(0xffffffff),
    at: fc.integer({ min: 0, max: 8.64e15 }),
    chain: fc.nat(0xffffffff),
    text: fc.string({ unit: 'binary', maxLength: 3000 }),
  });
  fc.assert(
    fc.property(input, (given) => {
      const { frame, payloadCrc } = encodeFrame(given);
      const read = readFrame(inZeros(frame), 0);
      assert.equal(read.is, 'frame');
      if (read.is !== 'frame') return;
      assert.equal(read.payload.toString('utf8'), Buffer.from(given.text).toString('utf8'));
      assert.equal(read.end, frame.length);
      const { text: _, ...fields } = given;
      const payloadBytes = Buffer.byteLength(given.text);
      assert.deepEqual(read.header, { ...fields, payloadCrc, payloadBytes });
    }),
  );
});

test('a frame fills whole sectors, so that the next one touches none of its bytes', () => {
  for (let bytes = 0; bytes < 3 * SECTOR_BYTES; bytes++) {
    const { length } = make('x'.repeat(bytes));
    assert.equal(length % SECTOR_BYTES, 0);
    assert.equal(length, frameBytes(bytes));
    assert.ok(length >= bytes + 48 && length < bytes + 48 + SECTOR_BYTES);
  }
});

test('zeros, and the end of the file, are read as the end of the log', () => {
  assert.deepEqual(readFrame(Buffer.alloc(0), 0), { is: 'end' });
  assert.deepEqual(readFrame(Buffer.alloc(5000), 0), { is: 'end' });
  assert.deepEqual(readFrame(inZeros(SHORT), SHORT.length), { is: 'end' });
});

for (const [name, frame] of Object.entries({ short: SHORT, long: LONG })) {
  const written = frame.length - [...frame].reverse().findIndex((byte) => byte !== 0);

  test(`a ${name} frame that the end of the file cuts at any byte is torn until all of it is there`, () => {
    assert.equal(readFrame(frame.subarray(0, 0), 0).is, 'end');
    for (let bytes = 1; bytes < written; bytes++) {
      assert.equal(readFrame(frame.subarray(0, bytes), 0).is, 'torn', `cut at ${bytes}`);
    }
    for (let bytes = written; bytes <= frame.length; bytes++) {
      assert.equal(readFrame(frame.subarray(0, bytes), 0).is, 'frame', `cut at ${bytes}`);
    }
  });

  test(`a ${name} frame of which only the first bytes were written is torn until all of it is there`, () => {
    for (let bytes = 1; bytes < written; bytes++) {
      const log = inZeros(frame);
      log.fill(0, bytes, frame.length);
      assert.equal(readFrame(log, 0).is, 'torn', `${bytes} bytes`);
    }
  });

  test(`any flipped bit of a ${name} frame is corruption, never a torn write and never another frame`, () => {
    const log = inZeros(frame);
    for (let bit = 0; bit < frame.length * 8; bit++) {
      log[bit >> 3] = (log[bit >> 3] as number) ^ (1 << (bit & 7));
      assert.equal(readFrame(log, 0).is, 'corrupt', `bit ${bit}`);
      log[bit >> 3] = (log[bit >> 3] as number) ^ (1 << (bit & 7));
    }
  });
}

test('a frame with any set of its sectors missing is torn', () => {
  const sectors = LONG.length / SECTOR_BYTES;
  assert.ok(sectors >= 4);
  for (let missing = 1; missing < 2 ** sectors - 1; missing++) {
    const log = inZeros(LONG);
    for (let sector = 0; sector < sectors; sector++) {
      if (missing & (1 << sector)) log.fill(0, sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
    }
    assert.equal(readFrame(log, 0).is, 'torn', `missing ${missing.toString(2)}`);
  }
});

test('the next frame after a position is found by its header, at the start of any later sector', () => {
  const log = Buffer.concat([LONG, Buffer.alloc(3 * SECTOR_BYTES), SHORT]);
  const at = log.length - SHORT.length;
  assert.equal(findFrameAfter(log, 0), at);
  assert.equal(findFrameAfter(log, at), undefined);
  assert.equal(readHeader(log, at)?.firstSeq, 7);
  assert.equal(readHeader(log, at + 1), undefined);
});

test('a payload cannot be mistaken for a frame: no UTF-8 text contains the magic bytes', () => {
  const hostile = Buffer.from(SHORT.toString('latin1'), 'utf8').toString('utf8');
  const log = make(' '.repeat(SECTOR_BYTES - 44) + hostile.repeat(3));
  assert.equal(findFrameAfter(log, 0), undefined);
});
