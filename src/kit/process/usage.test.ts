import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { maxOpenFiles, openFiles, processUsage } from './usage.ts';

test('the usage is that of this process', () => {
  const before = processUsage();
  // Work that costs processor time.
  const kept = Array.from({ length: 200_000 }, (_, at) => ({ text: `text ${at}` }));
  const after = processUsage();
  assert.equal(kept.length, 200_000);
  assert.equal(after.startedAtSec, before.startedAtSec);
  assert.ok(after.startedAtSec * 1000 <= Date.now());
  assert.ok(after.cpuUserSec + after.cpuSystemSec > before.cpuUserSec + before.cpuSystemSec);
  assert.ok(after.heapTotalBytes >= after.heapUsedBytes);
  assert.ok(after.residentBytes > 0 && after.externalBytes > 0);
});

test('a file that is open is counted, and there may be more of them', {
  skip: process.platform !== 'linux',
}, async () => {
  const before = await openFiles();
  const file = await open(import.meta.filename);
  assert.equal(await openFiles(), (before ?? 0) + 1);
  await file.close();
  assert.ok((await maxOpenFiles())! > before!);
});
