import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { BlockingDisk } from './blocking-disk.ts';
import type { Disk } from './env.ts';
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

async function entriesOf(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const piece of disk.entries(folder))
    for (const { name, kind, isText } of piece) found.set(name, isText ? kind : 'no text');
  return found;
}

test('entries tells the kinds of all names, also of one that is no text, and fails without the folder', async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  fs.writeFileSync(join(root, 'file'), '');
  fs.mkdirSync(join(root, 'folder'));
  fs.symlinkSync('folder', join(root, 'link'));
  spawnSync('mkfifo', [join(root, 'pipe')]);
  fs.writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x61, 0xff])]), '');
  assert.deepEqual([...(await entriesOf(root))].sort(), [
    ['a\ufffd', 'no text'],
    ['file', 'file'],
    ['folder', 'folder'],
    ['link', 'link'],
    ['pipe', 'other'],
  ]);
  await assert.rejects(entriesOf(join(root, 'none')), { code: 'ENOENT' });
});

test('entries come in pieces, each name once', async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  for (let n = 0; n < 1500; n++) fs.writeFileSync(join(root, `f${n}`), '');
  const pieces: number[] = [];
  const names = new Set<string>();
  for await (const piece of disk.entries(root)) {
    pieces.push(piece.length);
    for (const { name } of piece) names.add(name);
  }
  assert.equal(names.size, 1500);
  assert.ok(pieces.length > 1 && pieces.every((length) => length <= 512));
});

/** What spools need of a disk. */
function testSmallFiles(what: string, disk: Disk): void {
  test(`${what}: lstat tells a link itself, and what a rename keeps`, async (t) => {
    const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
    t.after(() => fs.rmSync(root, { recursive: true }));
    fs.writeFileSync(join(root, 'a'), 'four');
    fs.symlinkSync('a', join(root, 'link'));
    const before = await disk.lstat(join(root, 'a'));
    assert.deepEqual([before?.kind, before?.size], ['file', 4]);
    assert.equal((await disk.lstat(join(root, 'link')))?.kind, 'link');
    assert.equal((await disk.lstat(root))?.device, before?.device);
    fs.renameSync(join(root, 'a'), join(root, 'b'));
    assert.deepEqual(await disk.lstat(join(root, 'b')), before);
    assert.equal(await disk.lstat(join(root, 'a')), undefined);
  });

  test(`${what}: an exclusive open takes a name once and follows no link`, async (t) => {
    const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
    t.after(() => fs.rmSync(root, { recursive: true }));
    await (await disk.open(join(root, 'a'), 'exclusive')).close();
    fs.symlinkSync(join(root, 'outside'), join(root, 'link'));
    for (const name of ['a', 'link'])
      await assert.rejects(disk.open(join(root, name), 'exclusive'), { code: 'EEXIST' });
    assert.deepEqual(fs.readdirSync(root).sort(), ['a', 'link']);
  });

  test(`${what}: plain and append open no link, pipe, device or folder, and do not wait`, {
    timeout: 5000,
  }, async (t) => {
    const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
    t.after(() => fs.rmSync(root, { recursive: true }));
    fs.writeFileSync(join(root, 'file'), 'kept');
    fs.symlinkSync('file', join(root, 'link'));
    fs.mkdirSync(join(root, 'folder'));
    spawnSync('mkfifo', [join(root, 'pipe')]);
    for (const mode of ['plain', 'append'] as const)
      for (const path of [...['link', 'folder', 'pipe'].map((name) => join(root, name)), '/dev/null'])
        await assert.rejects(disk.open(path, mode), { code: /ELOOP|EISDIR|EINVAL|ENXIO/ }, `${mode} ${path}`);
    const file = await disk.open(join(root, 'file'), 'append');
    fs.appendFileSync(join(root, 'file'), ', with that of others,');
    await file.write(4, Buffer.from(' and more'));
    await file.close();
    assert.equal(fs.readFileSync(join(root, 'file'), 'utf8'), 'kept, with that of others, and more');
  });

  test(`${what}: a file is read and written as asked, short and long`, async (t) => {
    const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
    t.after(() => fs.rmSync(root, { recursive: true }));
    for (const size of [0, 1, 100, 300_000]) {
      const path = join(root, `of-${size}`);
      const bytes = Buffer.alloc(size, 'abc');
      const file = await disk.open(path, 'exclusive');
      await file.write(0, bytes);
      await file.datasync();
      assert.equal(await file.size(), size);
      assert.ok((await file.read(0, size + 1000)).equals(bytes));
      await file.truncate(Math.floor(size / 2));
      await file.close();
      const plain = await disk.open(path, 'plain');
      assert.equal(await plain.size(), Math.floor(size / 2));
      assert.ok((await plain.read(1, size)).equals(bytes.subarray(1, Math.floor(size / 2))));
      await plain.close();
    }
  });

  test(`${what}: new folders are private, and are not made twice; renames replace no filled folder`, async (t) => {
    const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
    t.after(() => fs.rmSync(root, { recursive: true }));
    for (const name of ['a', 'b']) await disk.makeNewFolder(join(root, name));
    assert.equal(fs.statSync(join(root, 'a')).mode & 0o777, 0o700);
    await assert.rejects(disk.makeNewFolder(join(root, 'a')), { code: 'EEXIST' });
    await assert.rejects(disk.makeNewFolder(join(root, 'none', 'a')), { code: 'ENOENT' });
    fs.writeFileSync(join(root, 'b', 'file'), '');
    await assert.rejects(disk.rename(join(root, 'a'), join(root, 'b')), { code: /ENOTEMPTY|EEXIST/ });
    await disk.rename(join(root, 'b'), join(root, 'a'));
    assert.deepEqual(fs.readdirSync(root), ['a']);
    assert.equal(await disk.lstat(join(root, 'a', 'file', 'below')), undefined);
  });
}

for (const [what, call] of Object.entries({
  lstat: (disk: BlockingDisk, path: string) => disk.lstat(path),
  open: async (disk: BlockingDisk, path: string) => (await disk.open(path, 'plain')).close(),
}))
  test(`blocking: a long row of ${what} lets the event loop turn before its end`, async () => {
    const blocking = new BlockingDisk();
    let hasTurned = false;
    setImmediate(() => {
      hasTurned = true;
    });
    let calls = 0;
    for (; calls < 10_000 && !hasTurned; calls++) await call(blocking, import.meta.filename);
    assert.ok(hasTurned, `not within ${calls} calls`);
  });

testSmallFiles('with threads', new RealDisk());
testSmallFiles('blocking', new BlockingDisk());

test('touch changes the time of a file and of no other; removeFolder removes only an empty one', async (t) => {
  const root = fs.mkdtempSync(join(tmpdir(), 'orchd-disk-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const path = join(root, 'a', 'file');
  fs.mkdirSync(join(root, 'a'));
  fs.writeFileSync(path, 'x');
  fs.utimesSync(path, 1, 1);
  await disk.touch(path);
  assert.notEqual((await disk.lstat(path))?.modifiedMs, 1000);
  await assert.rejects(disk.touch(join(root, 'none')), { code: 'ENOENT' });
  await assert.rejects(disk.removeFolder(join(root, 'a')), { code: /ENOTEMPTY|EEXIST/ });
  await disk.remove(path);
  await disk.removeFolder(join(root, 'a'));
  await disk.removeFolder(join(root, 'a'));
  assert.deepEqual(fs.readdirSync(root), []);
});
