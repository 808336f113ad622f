/** Damage to the log: what was acknowledged is there, or the start is refused with a position. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { State } from '../../src/core/state/state.ts';
import { OrchdError } from '../../src/model/errors.ts';
import { segmentName } from '../../src/stores/journal/layout.ts';
import { SECTOR_BYTES } from '../../src/stores/journal/log/frame.ts';
import { change, FolderMaker, JobScript, NOW, newState } from '../fakes/folder-maker.ts';
import type { MemoryDisk } from '../fakes/memory-disk.ts';
import { openStore } from '../fakes/open-store.ts';
import { recover, stateHash } from '../fakes/restored.ts';

interface Log {
  readonly maker: FolderMaker;
  readonly disk: MemoryDisk;
  /** Offset of each frame in the last segment. */
  readonly frames: readonly number[];
  /** The state before and after the last frame. */
  readonly before: Hashes;
  readonly after: Hashes;
}

interface Hashes {
  readonly all: string;
  /** Without ended jobs, which leave memory when a store is opened: the history has them. */
  readonly live: string;
}

const hashes = (state: State): Hashes => ({
  all: stateHash(state),
  live: stateHash(state, { withoutEnded: true }),
});

/** Two segments, six frames, about 3.5 KiB; the last frame has this many sectors. */
async function makeLog(lastSectors = 2): Promise<Log> {
  const maker = await FolderMaker.make();
  const [a, b, c] = [new JobScript('a'), new JobScript('b'), new JobScript('c')] as const;
  await maker.add(...a.ask(maker.next));
  await maker.roll();
  const frames: number[] = [];
  for (const changes of [
    [...a.claim(), ...a.start()],
    [...a.succeed('"ü"')],
    [...b.ask(maker.next + 6, { key: 'k' })],
  ]) {
    frames.push(maker.position);
    await maker.add(...changes);
  }
  const disk = maker.disk as MemoryDisk;
  const before = await hashesOf(disk);
  frames.push(maker.position);
  await maker.add(...c.ask(maker.next, { payload: 'x'.repeat(lastSectors * SECTOR_BYTES - 500) }));
  assert.equal(maker.position - (frames.at(-1) as number), lastSectors * SECTOR_BYTES);
  return { maker, disk, frames, before, after: await hashesOf(disk) };
}

async function hashesOf(disk: MemoryDisk): Promise<Hashes> {
  const state = newState();
  await recover(disk, PATHS, state, NOW);
  return hashes(state);
}

const PATHS = (await FolderMaker.make()).paths;

/** The state that is recovered, or the position at which recovery was refused. */
async function outcome(disk: MemoryDisk): Promise<{ hash: string } | { refusedAt: string }> {
  const state = newState();
  try {
    await recover(disk, PATHS, state, NOW);
    return { hash: stateHash(state) };
  } catch (error) {
    assert.ok(error instanceof OrchdError, String(error));
    assert.equal(error.code, 'STORE_CORRUPT');
    return { refusedAt: error.details.position ?? '' };
  }
}

async function refused(disk: MemoryDisk, position?: string | RegExp): Promise<void> {
  const seen = await outcome(disk);
  assert.ok('refusedAt' in seen, 'it was opened');
  if (position instanceof RegExp) assert.match(seen.refusedAt, position);
  else if (position !== undefined) assert.equal(seen.refusedAt, position);
  await assert.rejects(openStore(disk.copy()), { code: 'STORE_CORRUPT' });
}

describe('a log cut in its last frame', () => {
  const ways: Readonly<Record<string, (bytes: Buffer, at: number) => Buffer>> = {
    'where the file ends': (bytes, at) => Buffer.from(bytes.subarray(0, at)),
    'and followed by the zeros the segment was made of': (bytes, at) =>
      Buffer.concat([bytes.subarray(0, at), Buffer.alloc(bytes.length - at + 2 * SECTOR_BYTES)]),
  };
  for (const [way, cut] of Object.entries(ways)) {
    test(`at every byte, ${way}: opens with every earlier change, goes on, and opens again`, async () => {
      const log = await makeLog();
      const bytes = log.disk.files.get(log.maker.segment) as Buffer;
      const start = log.frames.at(-1) as number;
      const written = bytes.findLastIndex((byte) => byte !== 0) + 1;
      for (let at = start; at < bytes.length; at++) {
        const disk = log.disk.copy();
        disk.files.set(log.maker.segment, cut(bytes, at));
        const first = await openStore(disk);
        // Behind the end mark are only zeros: there the frame is whole.
        assert.equal(hashes(first.state).live, (at < written ? log.before : log.after).live, `cut at ${at}`);
        const seq = first.store.append([change('brain', 'brain', BRAIN)], NOW);
        first.state.apply(change('brain', 'brain', BRAIN), NOW);
        assert.equal(seq, first.state.seq);
        await first.durable(seq);
        await first.store.close();
        const second = await openStore(disk);
        assert.equal(hashes(second.state).live, hashes(first.state).live, `cut at ${at}, opened again`);
        await second.store.close();
      }
    });
  }
});

const BRAIN = { v: 1 as const, owner: 'o', epoch: 2, attemptFloor: 0 };

test('a last frame with any set of its sectors missing is cut, and everything before it is there', async () => {
  const sectors = 6;
  const log = await makeLog(sectors);
  await log.maker.preallocate(4 * SECTOR_BYTES);
  const start = log.frames.at(-1) as number;
  for (let missing = 1; missing < 2 ** sectors; missing++) {
    const disk = log.disk.copy();
    const bytes = disk.files.get(log.maker.segment) as Buffer;
    for (let sector = 0; sector < sectors; sector++) {
      const at = start + sector * SECTOR_BYTES;
      if (missing & (1 << sector)) bytes.fill(0, at, at + SECTOR_BYTES);
    }
    assert.deepEqual(await outcome(disk), { hash: log.before.all }, `missing ${missing.toString(2)}`);
  }
});

test('every flipped bit of a log is refused with its position, or changes nothing', async () => {
  const log = await makeLog();
  await log.maker.preallocate(2 * SECTOR_BYTES);
  let refusals = 0;
  let flips = 0;
  for (const [path, bytes] of log.disk.files) {
    const used = path === log.maker.segment ? log.maker.position : bytes.length;
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const byte = bit >> 3;
      bytes[byte] = (bytes[byte] as number) ^ (1 << (bit & 7));
      const seen = await outcome(log.disk);
      bytes[byte] = (bytes[byte] as number) ^ (1 << (bit & 7));
      flips++;
      if ('refusedAt' in seen) {
        refusals++;
        assert.match(seen.refusedAt, /^log\/\d{16}\.log:\d+$/);
        assert.ok(`/data/${seen.refusedAt}`.startsWith(path), `${path} bit ${bit}: ${seen.refusedAt}`);
        assert.ok(Number(seen.refusedAt.split(':')[1]) <= byte, `${path} bit ${bit}: ${seen.refusedAt}`);
      } else {
        assert.equal(seen.hash, log.after.all, `${path} bit ${bit}`);
        assert.ok(byte >= used, `${path} bit ${bit} was not noticed`);
      }
    }
  }
  assert.ok(flips > 20_000 && refusals > 20_000, `${refusals} of ${flips}`);
});

test('a hole in any earlier sector is refused', async () => {
  const log = await makeLog();
  const last = log.frames.at(-1) as number;
  for (const [path, bytes] of log.disk.files) {
    const end = path === log.maker.segment ? last : bytes.length;
    for (let at = 0; at < end; at += SECTOR_BYTES) {
      const disk = log.disk.copy();
      disk.files.get(path)?.fill(0, at, at + SECTOR_BYTES);
      await refused(disk, /^log\/\d{16}\.log:\d+$/);
    }
  }
});

describe('segments', () => {
  /** Three segments with one frame each, after the first. */
  async function makeSegments(): Promise<FolderMaker> {
    const maker = await FolderMaker.make();
    for (const id of ['a', 'b', 'c']) {
      await maker.roll();
      await maker.add(...new JobScript(id).ask(maker.next));
    }
    return maker;
  }
  const pathOf = (seq: number): string => join(PATHS.log, segmentName(seq));

  test('a missing segment is refused', async () => {
    for (const seq of [1, 2, 3]) {
      const { disk } = await makeSegments();
      await disk.remove(pathOf(seq));
      await refused(disk as MemoryDisk, `log/${segmentName(seq + 1)}:0`);
    }
  });

  test('a missing log behind a checkpoint is refused', async () => {
    const maker = await makeSegments();
    await maker.checkpoint();
    await maker.disk.remove(maker.segment);
    await refused(maker.disk as MemoryDisk, 'log:0');
  });

  test('segments that were swapped are refused', async () => {
    for (const [one, other] of [
      [1, 2],
      [2, 3],
      [2, 4],
    ] as const) {
      const disk = (await makeSegments()).disk as MemoryDisk;
      const [left, right] = [disk.files.get(pathOf(one)), disk.files.get(pathOf(other))] as [Buffer, Buffer];
      disk.files.set(pathOf(one), right);
      disk.files.set(pathOf(other), left);
      await refused(disk, `log/${segmentName(one)}:0`);
    }
  });

  test('a segment of another folder is refused, though all its checksums match', async () => {
    const disk = (await makeSegments()).disk as MemoryDisk;
    const other = await FolderMaker.make();
    await other.add(...new JobScript('x').ask(2));
    await other.roll();
    await other.add(...new JobScript('y').ask(3));
    disk.files.set(pathOf(3), (other.disk as MemoryDisk).files.get(pathOf(3)) as Buffer);
    await refused(disk, `log/${segmentName(3)}:0`);
  });

  test('a frame of a lower epoch after a higher one is refused', async () => {
    for (const roll of [false, true]) {
      const maker = await makeSegments();
      maker.epoch = 3;
      await maker.add(...new JobScript('d').ask(maker.next));
      if (roll) await maker.roll();
      const at = `log/${maker.segment.slice(-20)}:${maker.position}`;
      maker.epoch = 2;
      await maker.add(...new JobScript('e').ask(maker.next));
      await refused(maker.disk as MemoryDisk, at);
    }
  });
});

test('a refused log is not touched, however often it is opened', async () => {
  const log = await makeLog();
  const bytes = log.disk.files.get(log.maker.segment) as Buffer;
  bytes[20] = (bytes[20] as number) ^ 1;
  const before = [...log.disk.files].map(([path, content]) => [path, content.toString('hex')]);
  for (let tries = 0; tries < 3; tries++) {
    await assert.rejects(openStore(log.disk), { code: 'STORE_CORRUPT' });
    const after = [...log.disk.files].filter(([path]) => path !== PATHS.lock);
    assert.deepEqual(
      after.map(([path, content]) => [path, content.toString('hex')]),
      before,
    );
  }
});
