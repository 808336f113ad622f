import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import { realEnv } from '../../kit/env/real.ts';
import { Blobs, type FileRef, filesOf, isScattered } from './blobs.ts';

test('close waits for a body that is being written', async () => {
  const { clock, timers } = realEnv();
  const disk = new MemoryDisk();
  await disk.makeFolder('/blobs');
  const failures: Error[] = [];
  const blobs = new Blobs({ clock, timers, disk }, '/blobs', {
    diskFull: () => undefined,
    failed: (error) => failures.push(error),
  });
  await blobs.open();
  let isPut = false;
  const put = blobs.put('body').then(() => {
    isPut = true;
  });
  await blobs.close();
  assert.equal(isPut, true);
  await put;
  assert.deepEqual(failures, []);
});

test('a composed body names the oldest file that it needs, through all bodies in between', async () => {
  const { clock, timers } = realEnv();
  const disk = new MemoryDisk();
  await disk.makeFolder('/blobs');
  const events = { diskFull: () => undefined, failed: () => undefined };
  let last: FileRef | undefined;
  // Every process begins a file of its own.
  for (let file = 1; file <= 5; file++) {
    const blobs = new Blobs({ clock, timers, disk }, '/blobs', events);
    await blobs.open();
    const plain = await blobs.put('plain');
    assert.deepEqual(filesOf(plain), { low: file, high: file });
    last = await blobs.put('more', last ? [last, plain] : []);
    assert.deepEqual(filesOf(last), { low: 1, high: file });
    assert.equal(isScattered(last), file === 5, 'a body over five files is to be written anew');
    await blobs.close();
  }
});
