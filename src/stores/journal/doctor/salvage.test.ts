import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FolderMaker, JobScript, NOW, newState } from '../../../../test/fakes/folder-maker.ts';
import type { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import { recover, stateHash } from '../../../../test/fakes/restored.ts';
import type { State } from '../../../core/state/state.ts';
import { createOrchestrator } from '../../../index.ts';
import type { Disk } from '../../../kit/env/env.ts';
import { RealDisk } from '../../../kit/env/real-disk.ts';
import { paths, segmentName } from '../layout.ts';
import { examine, salvage } from './doctor.ts';

interface Folder {
  readonly maker: FolderMaker;
  readonly disk: MemoryDisk;
  /** The hash of the state after each frame, by the last change of the frame. */
  readonly hashes: Map<number, string>;
  /** The positions of the frames of the last segment. */
  readonly frames: number[];
}

/** Thirty jobs in three segments, a checkpoint after each of the first two. */
async function makeFolder(disk?: Disk, folder?: string): Promise<Folder> {
  const maker = await FolderMaker.make(disk, folder);
  const hashes = new Map<number, string>();
  let frames: number[] = [];
  for (let n = 0; n < 30; n++) {
    if (n === 10 || n === 20) {
      await maker.checkpoint();
      frames = [];
    }
    const job = new JobScript(`job-${n}`);
    const steps = [job.ask(maker.next)];
    if (n % 3 === 0) steps.push([...job.claim(), ...job.start(), ...job.succeed()]);
    for (const changes of steps) {
      frames.push(maker.position);
      await maker.add(...changes);
      hashes.set(maker.next - 1, stateHash(await stateOf(maker.disk, maker.paths.folder)));
    }
  }
  return { maker, disk: maker.disk as MemoryDisk, hashes, frames };
}

async function stateOf(disk: Disk, folder: string): Promise<State> {
  const state = newState();
  await recover(disk, paths(folder), state, NOW);
  return state;
}

const snapshot = (disk: MemoryDisk): [string, string][] =>
  [...disk.files]
    .filter(([path]) => path.startsWith('/data/'))
    .map(([path, bytes]) => [path, bytes.toString('hex')]);

function flip(disk: MemoryDisk, path: string, at: number): void {
  const bytes = disk.files.get(path);
  assert.ok(bytes);
  bytes[at] = (bytes[at] as number) ^ 4;
}

test('everything before the damage is written to a new folder, and the original is not touched', async () => {
  const { maker, disk, hashes, frames } = await makeFolder();
  const damaged = frames[3] as number;
  flip(disk, maker.segment, damaged + 100);
  const earlier = snapshot(disk);
  const plan = await salvage(disk, '/data', '/saved');
  assert.deepEqual(snapshot(disk), earlier);
  assert.equal(plan.position, `log/${maker.segment.slice(-20)}:${damaged}`);
  const saved = await stateOf(disk, '/saved');
  assert.equal(saved.seq, plan.upTo);
  assert.equal(stateHash(saved), hashes.get(plan.upTo));
  assert.deepEqual(plan.jobs, saved.counts);
  assert.ok(plan.lost.changes > 0 && plan.lost.bytes > 0);
  const { verdict, findings } = await examine(disk, '/saved');
  assert.equal(verdict, 'ok', JSON.stringify(findings));
  assert.deepEqual(await disk.list('/'), ['data', 'saved'], 'nothing else was left behind');
});

test('a healthy folder is saved completely', async () => {
  const { disk, maker, hashes } = await makeFolder();
  const plan = await salvage(disk, '/data', '/saved');
  assert.deepEqual([plan.upTo, plan.position], [maker.next - 1, undefined]);
  assert.equal(stateHash(await stateOf(disk, '/saved')), hashes.get(maker.next - 1));
});

test('damage before the checkpoint costs no record of the state', async () => {
  const { disk, maker, hashes } = await makeFolder();
  flip(disk, join(maker.paths.log, segmentName(1)), 600);
  const plan = await salvage(disk, '/data', '/saved');
  assert.equal(plan.upTo, maker.next - 1);
  assert.equal(stateHash(await stateOf(disk, '/saved')), hashes.get(plan.upTo));
  assert.equal((await examine(disk, '/saved')).verdict, 'ok');
});

test('with both checkpoints gone the log alone is saved', async () => {
  const { disk, maker, hashes } = await makeFolder();
  flip(disk, maker.paths.manifest, 40);
  flip(disk, maker.paths.previousManifest, 40);
  await assert.rejects(stateOf(disk, '/data'), { code: 'STORE_CORRUPT' });
  const plan = await salvage(disk, '/data', '/saved');
  assert.deepEqual([plan.base, plan.upTo], ['log', maker.next - 1]);
  assert.equal(stateHash(await stateOf(disk, '/saved')), hashes.get(plan.upTo));
});

test('with the log after the checkpoint gone, the checkpoint is saved', async () => {
  const { disk, maker, hashes } = await makeFolder();
  await disk.remove(maker.segment);
  await assert.rejects(stateOf(disk, '/data'), { code: 'STORE_CORRUPT' });
  const plan = await salvage(disk, '/data', '/saved');
  assert.deepEqual([plan.base, plan.upTo], ['checkpoint', maker.manifest.seq]);
  assert.equal(stateHash(await stateOf(disk, '/saved')), hashes.get(plan.upTo));
});

test('a flipped bit in the last segment costs the frames from there on and nothing before them', async () => {
  const { disk, maker, hashes, frames } = await makeFolder();
  for (let byte = 0; byte < maker.position; byte += 114) {
    const copy = disk.copy();
    flip(copy, maker.segment, byte);
    const plan = await salvage(copy, '/data', '/saved');
    const frame = frames.findLast((at) => at <= byte);
    assert.equal(plan.position, `log/${maker.segment.slice(-20)}:${frame}`, `byte ${byte}`);
    const saved = await stateOf(copy, '/saved');
    assert.equal(stateHash(saved), hashes.get(plan.upTo), `byte ${byte}`);
  }
});

test('a folder that is in use, a target that is not empty and nothing to save are refused', async () => {
  const { disk, maker } = await makeFolder();
  await assert.rejects(salvage(disk, '/data', '/data'), { code: 'INVALID_PARAMS' });
  await assert.rejects(salvage(disk, '/data', '/data/inside'), { code: 'INVALID_PARAMS' });
  await disk.makeFolder('/full/of');
  await assert.rejects(salvage(disk, '/data', '/full'), { code: 'INVALID_PARAMS' });
  await assert.rejects(salvage(disk, '/nowhere', '/saved'), { code: 'NOT_FOUND' });
  const lock = await disk.lock(maker.paths.lock);
  await assert.rejects(salvage(disk, '/data', '/saved'), { code: 'STORE_LOCKED' });
  await lock?.release();
  flip(disk, maker.paths.manifest, 40);
  flip(disk, maker.paths.previousManifest, 40);
  await disk.remove(join(maker.paths.log, segmentName(1)));
  await assert.rejects(salvage(disk, '/data', '/saved'), { code: 'STORE_CORRUPT' });
  assert.equal(await disk.stat('/saved'), undefined);
});

test('a brain starts from the saved folder and runs new jobs', async () => {
  const root = mkdtempSync(join(tmpdir(), 'orchd-salvage-'));
  try {
    const data = join(root, 'data');
    const { maker, frames } = await makeFolder(new RealDisk(), data);
    const bytes = readFileSync(maker.segment);
    bytes.writeUInt8(bytes.readUInt8((frames[3] as number) + 100) ^ 4, (frames[3] as number) + 100);
    writeFileSync(maker.segment, bytes);
    await assert.rejects(stateOf(new RealDisk(), data), { code: 'STORE_CORRUPT' });
    const backends = [{ name: 'b1', slots: 4, types: { inference: () => 'fresh' } }];
    const plan = await salvage(new RealDisk(), data, join(root, 'saved'));
    const brain = await createOrchestrator({ data: join(root, 'saved'), backends });
    const { job_id } = await brain.submit({ payload: 1 });
    assert.equal((await brain.wait(job_id)).result, 'fresh');
    const { jobs } = await brain.list({ limit: 100 });
    assert.equal(jobs.length, 1 + Object.values(plan.jobs).reduce((sum, count) => sum + count, 0));
    await brain.stop();
    assert.equal((await examine(new RealDisk(), join(root, 'saved'))).verdict, 'ok');
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
