import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
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

test('files and folders are for their owner only, also those that were open to others before', async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const modeOf = (name: string): number => fs.statSync(join(root, name)).mode & 0o777;
  fs.writeFileSync(join(root, 'old'), 'x');
  fs.chmodSync(join(root, 'old'), 0o644);
  for (const [name, mode] of [
    ['old', 'write'],
    ['new', 'create'],
  ] as const) {
    await (await disk.open(join(root, name), mode)).close();
    assert.equal(modeOf(name), 0o600);
  }
  const lock = await disk.lock(join(root, 'lock'));
  assert.equal(modeOf('lock'), 0o600);
  assert.equal(await disk.lock(join(root, 'lock')), undefined, 'making the lock private does not release it');
  const holder = [
    '-e',
    `process.exit(new (require('node:sqlite').DatabaseSync)(process.argv[1], { timeout: 0 }).exec('BEGIN IMMEDIATE') ?? 0)`,
  ];
  assert.notEqual(
    spawnSync(process.execPath, [...holder, join(root, 'lock')]).status,
    0,
    'another process is refused',
  );
  await lock?.release();
});

test('closeToOthers changes what is ours and no link, and leaves a folder alone that is shared', async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const [data, outside] = [join(root, 'data'), join(root, 'outside')];
  fs.mkdirSync(join(data, 'log'), { recursive: true });
  for (const path of [outside, join(data, 'log', 'a'), join(data, 'foreign')]) fs.writeFileSync(path, '');
  fs.symlinkSync(outside, join(data, 'log', 'link'));
  for (const path of [data, join(data, 'log'), outside, join(data, 'log', 'a'), join(data, 'foreign')])
    fs.chmodSync(path, 0o755);
  const modeOf = (path: string): number => fs.statSync(path).mode & 0o7777;
  const isOurs = (name: string): boolean => name === 'log';
  assert.equal(await disk.closeToOthers(data, isOurs), false);
  assert.deepEqual([data, join(data, 'foreign'), outside].map(modeOf), [0o755, 0o755, 0o755]);
  assert.deepEqual([join(data, 'log'), join(data, 'log', 'a')].map(modeOf), [0o700, 0o700]);
  fs.rmSync(join(data, 'foreign'));
  fs.chmodSync(data, 0o1777);
  assert.equal(await disk.closeToOthers(data, isOurs), false);
  assert.equal(modeOf(data), 0o1777);
  fs.chmodSync(data, 0o755);
  assert.equal(await disk.closeToOthers(data, isOurs), true);
  assert.equal(modeOf(data), 0o700);
  assert.equal(await disk.closeToOthers(join(root, 'none'), isOurs), true);
});
