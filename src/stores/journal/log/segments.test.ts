import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { change, FolderMaker } from '../../../../test/fakes/folder-maker.ts';
import type { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import { segmentName } from '../layout.ts';
import { SECTOR_BYTES } from './frame.ts';
import { type LogEnd, type LogStart, listSegments, readLog } from './segments.ts';

const failure = (n: number) =>
  change('failure', `key-${n}`, {
    v: 1,
    until: n,
    error: { code: 'INTERNAL', message: '', retriable: false },
  });

/** Three segments of three frames with two changes each; the first segment begins with one more, the brain's. */
async function threeSegments(): Promise<FolderMaker> {
  const maker = await FolderMaker.make();
  for (let segment = 0; segment < 3; segment++) {
    if (segment > 0) await maker.roll();
    for (let frame = 0; frame < 3; frame++) await maker.add(failure(maker.next), failure(maker.next + 1));
  }
  return maker;
}

const START: LogStart = { nextSeq: 1, chain: 0 };

async function read(
  maker: FolderMaker,
  start = START,
  upTo?: number,
): Promise<{ seqs: number[]; end: LogEnd }> {
  const seqs: number[] = [];
  const end = await readLog(
    maker.disk,
    maker.paths.log,
    start,
    ({ header }) => seqs.push(header.firstSeq),
    upTo,
  );
  return { seqs, end };
}

const bytesOf = (maker: FolderMaker, firstSeq: number): Buffer => {
  const path = join(maker.paths.log, segmentName(firstSeq));
  return (maker.disk as MemoryDisk).files.get(path) as Buffer;
};

function refused(reading: Promise<unknown>, position: string, message?: RegExp): Promise<void> {
  return assert.rejects(reading, (error: Error & { code?: string; details?: { position?: string } }) => {
    assert.equal(error.code, 'STORE_CORRUPT');
    assert.equal(error.details?.position, position);
    if (message) assert.match(error.message, message);
    return true;
  });
}

test('segments are listed in the order of their changes, and nothing else is', async () => {
  const maker = await threeSegments();
  const { log } = maker.paths;
  for (const name of ['spare', 'notes.txt', '1.log', `${segmentName(5)}.old`]) {
    await maker.disk.open(join(log, name), 'create');
  }
  const segments = await listSegments(maker.disk, log);
  assert.deepEqual(
    segments.map(({ firstSeq }) => firstSeq),
    [1, 8, 14],
  );
});

test('every frame is handed on once, in order, over all segments', async () => {
  const maker = await threeSegments();
  const { seqs, end } = await read(maker);
  assert.deepEqual(seqs, [1, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
  assert.deepEqual([end.nextSeq, end.chain, end.tornReason], [20, maker.chain, undefined]);
  assert.equal(end.goodBytes, maker.position);
});

test('reading can begin and end at a segment', async () => {
  const maker = await threeSegments();
  assert.deepEqual((await read(maker, { nextSeq: 8, chain: undefined })).seqs, [8, 10, 12, 14, 16, 18]);
  assert.deepEqual((await read(maker, START, 8)).seqs, [1, 2, 4, 6, 8, 10, 12]);
});

test('the zeros behind the last frame are not part of the log', async () => {
  const maker = await threeSegments();
  await maker.preallocate(10_000);
  const { end } = await read(maker);
  assert.deepEqual([end.goodBytes, end.fileBytes], [maker.position, maker.position + 10_000]);
});

test('a torn frame is accepted only at the end of the last segment', async () => {
  const maker = await threeSegments();
  const last = bytesOf(maker, 14);
  last.fill(0, last.length - SECTOR_BYTES + 100);
  const { end } = await read(maker);
  assert.equal(end.nextSeq, 18);
  assert.ok(end.tornReason);

  const middle = await threeSegments();
  const bytes = bytesOf(middle, 8);
  bytes.fill(0, bytes.length - SECTOR_BYTES + 100);
  await refused(read(middle), `log/${segmentName(8)}:${bytes.length - SECTOR_BYTES}`);
});

describe('what is refused, with its position', () => {
  test('a missing segment', async () => {
    for (const [missing, next] of [
      [1, 8],
      [8, 14],
    ] as const) {
      const maker = await threeSegments();
      await maker.disk.remove(join(maker.paths.log, segmentName(missing)));
      await refused(read(maker), `log/${segmentName(next)}:0`, /no segment that starts with/);
    }
  });

  test('two segments with swapped names', async () => {
    const maker = await threeSegments();
    const at = (seq: number): string => join(maker.paths.log, segmentName(seq));
    await maker.disk.rename(at(8), `${at(8)}.x`);
    await maker.disk.rename(at(14), at(8));
    await maker.disk.rename(`${at(8)}.x`, at(14));
    await refused(read(maker), `log/${segmentName(8)}:0`, /change 8 was expected/);
  });

  test('a frame whose chain value is not the checksum of the frame before it', async () => {
    const maker = await threeSegments();
    maker.chain ^= 1;
    await maker.add(failure(1));
    await refused(read(maker), `log/${segmentName(14)}:${maker.position - SECTOR_BYTES}`, /does not follow/);
  });

  test('a log that does not follow its checkpoint', async () => {
    const maker = await threeSegments();
    await refused(read(maker, { nextSeq: 8, chain: 12345 }), `log/${segmentName(8)}:0`, /does not follow/);
  });

  test('a frame of a lower epoch after a higher one', async () => {
    const maker = await threeSegments();
    maker.epoch = 5;
    await maker.add(failure(1));
    await maker.roll();
    maker.epoch = 4;
    await maker.add(failure(2));
    await refused(read(maker), `log/${segmentName(21)}:0`, /epoch 4 after epoch 5/);
  });

  test('a frame that repeats or leaves out a change', async () => {
    for (const step of [-1, 1]) {
      const maker = await threeSegments();
      maker.next += step;
      await maker.add(failure(1));
      await refused(read(maker), `log/${segmentName(14)}:${maker.position - SECTOR_BYTES}`, /was expected/);
    }
  });

  test('a hole with a frame after it', async () => {
    const maker = await threeSegments();
    bytesOf(maker, 14).fill(0, SECTOR_BYTES, 2 * SECTOR_BYTES);
    await refused(read(maker), `log/${segmentName(14)}:${SECTOR_BYTES}`, /but a frame follows/);
  });
});
