import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import { realEnv } from '../../kit/env/real.ts';
import { Blobs } from './blobs.ts';

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
