import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import { MeasuredDisk } from './measured-disk.ts';
import { RealDisk } from './real-disk.ts';

test('every sync is reported with its file and duration, and the file has what was written', async () => {
  const inside = new MemoryDisk();
  let now = 0;
  const clock = { monotonic: () => (now += 7) };
  const synced: [string, number][] = [];
  const disk = new MeasuredDisk(inside, clock, (path, ms) => synced.push([path, ms]));
  await disk.makeFolder('/data');
  const file = await disk.open('/data/log', 'create');
  await file.write(0, Buffer.from('text'));
  assert.deepEqual(synced, []);
  await file.datasync();
  await file.datasync();
  await file.close();
  assert.deepEqual(synced, [
    ['/data/log', 7],
    ['/data/log', 7],
  ]);
  assert.deepEqual(await disk.list('/data'), ['log']);
  const read = await disk.open('/data/log', 'read');
  assert.equal((await read.read(0, await read.size())).toString(), 'text');
});

test('what the disk inside leaves out is left out', async () => {
  const clock = { monotonic: () => 0 };
  const measured = (disk: RealDisk | MemoryDisk) => new MeasuredDisk(disk, clock, () => undefined);
  assert.equal(measured(new MemoryDisk()).space, undefined);
  const space = await measured(new RealDisk()).space?.(import.meta.dirname);
  assert.ok(space && space.freeBytes > 0);
});
