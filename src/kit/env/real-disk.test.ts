import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { RealDisk } from './real-disk.ts';

const disk = new RealDisk();

test('makeFolder makes the parents too, for their owner only, and leaves an existing folder alone', async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const deep = join(root, 'a', 'b', 'c');
  await Promise.all([disk.makeFolder(deep), disk.makeFolder(`${deep}/`), disk.makeFolder(join(root, 'a'))]);
  await disk.makeFolder(deep);
  for (const path of [join(root, 'a'), deep]) assert.equal(fs.statSync(path).mode & 0o777, 0o700);
});

test('makeFolder fails where the system refuses the folder', { timeout: 5000 }, async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const file = join(root, 'file');
  fs.writeFileSync(file, '');
  await assert.rejects(disk.makeFolder(file), { code: 'EEXIST' });
  await assert.rejects(disk.makeFolder(join(file, 'in')), { code: 'ENOTDIR' });
  await assert.rejects(disk.makeFolder('/proc/orchd/data'), { code: 'ENOENT' });
});
