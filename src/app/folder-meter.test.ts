import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../test/fakes/memory-disk.ts';
import type { Disk } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import { StorageTally } from '../telemetry/storage-metrics.ts';
import { FolderMeter } from './folder-meter.ts';

const PARTS = {
  log: ['/d/log'],
  blobs: ['/d/blobs'],
  history: ['/d/history.sqlite', '/d/history.sqlite-wal'],
};

async function folder(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  for (const path of ['/d', '/d/log']) await disk.makeFolder(path);
  disk.files.set('/d/log/1.log', Buffer.alloc(100));
  disk.files.set('/d/log/2.log', Buffer.alloc(20));
  disk.files.set('/d/history.sqlite', Buffer.alloc(3));
  disk.files.set('/d/history.sqlite-wal', Buffer.alloc(4));
  return disk;
}

/** A meter whose timer fires when the test says so. */
function meterOf(disk: Disk) {
  const tally = new StorageTally();
  let due: (() => void) | undefined;
  let waitsMs = 0;
  let now = 0;
  const after = (ms: number, run: () => void) => {
    waitsMs = ms;
    due = run;
    return () => {
      due = undefined;
    };
  };
  const meter = new FolderMeter({
    env: { disk, timers: { after, soon: setImmediate }, clock: { ...realEnv().clock, monotonic: () => now } },
    folder: '/d',
    parts: PARTS,
    tally,
  });
  const takes = (ms: number): void => {
    now += ms;
  };
  return {
    meter,
    tally,
    takes,
    waitsMs: () => waitsMs,
    isWaiting: () => due !== undefined,
    passTime: () => due?.(),
  };
}

/** Everything in memory is over in one turn. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('the folder is measured at the start and again later, by part', async () => {
  const disk = Object.assign(await folder(), { space: async () => ({ freeBytes: 9 }) });
  const { meter, tally, isWaiting, passTime } = meterOf(disk);
  await meter.start();
  await turn();
  assert.deepEqual(
    [...tally.sizes!.parts],
    [
      ['log', 120],
      ['blobs', 0],
      ['history', 7],
    ],
  );
  assert.equal(tally.sizes!.freeBytes, 9);
  disk.files.set('/d/log/3.log', Buffer.alloc(1000));
  passTime();
  await turn();
  assert.equal(tally.sizes!.parts.get('log'), 1120);
  await meter.stop();
  assert.ok(!isWaiting(), 'nothing is left of a meter that has stopped');
});

test('a folder that cannot be read any more has no sizes, and a disk that does not say its space none', async () => {
  const disk = await folder();
  const { meter, tally, passTime } = meterOf(disk);
  await meter.start();
  await turn();
  assert.equal(tally.sizes!.freeBytes, undefined);
  disk.list = () => Promise.reject(new Error('EIO'));
  passTime();
  await turn();
  assert.equal(tally.sizes, undefined);
  await meter.stop();
});

test('a folder that takes long to measure is measured less often', async () => {
  const disk = await folder();
  const { meter, takes, waitsMs } = meterOf(disk);
  const list = disk.list.bind(disk);
  disk.list = (path) => {
    takes(2000);
    return list(path);
  };
  await meter.start();
  await turn();
  assert.ok(waitsMs() >= 50 * 2000, `${waitsMs()} ms`);
  await meter.stop();
});
