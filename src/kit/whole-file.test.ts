import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../test/fakes/memory-disk.ts';
import type { Disk, DiskFile, OpenMode } from './env/env.ts';
import { readWholeFile, writeWholeFile } from './whole-file.ts';

const PATH = '/file';

/** A disk that records the calls made to it, and fails at one of them. */
class Recording extends MemoryDisk {
  readonly steps: string[] = [];
  failAt: string | undefined;

  #step(step: string): void {
    this.steps.push(step);
    if (step === this.failAt) throw Object.assign(new Error(step), { code: 'EIO' });
  }

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    this.#step(`${mode} ${path}`);
    const file = await super.open(path, mode);
    return {
      ...file,
      write: async (position, data) => {
        this.#step('write');
        await file.write(position, data);
      },
      datasync: async () => this.#step('datasync'),
      close: async () => this.#step('close'),
      read: (position, length) => file.read(position, length),
      size: () => file.size(),
    };
  }

  override async rename(from: string, to: string): Promise<void> {
    this.#step(`rename ${from} ${to}`);
    await super.rename(from, to);
  }

  override async syncFolder(path: string): Promise<void> {
    this.#step(`sync ${path}`);
  }
}

const textOf = async (disk: Disk): Promise<string | undefined> =>
  (await readWholeFile(disk, PATH))?.toString();

test('the content is synced before the rename, and the folder before the write settles', async () => {
  const disk = new Recording();
  await writeWholeFile(disk, PATH, 'new');
  const renamed = ['create /file.tmp', 'write', 'datasync', 'close', 'rename /file.tmp /file'];
  assert.deepEqual(disk.steps, [...renamed, 'sync /']);
  disk.steps.length = 0;
  await writeWholeFile(disk, PATH, 'newer', { temporary: '/other', name: 'visible' });
  assert.deepEqual(
    disk.steps,
    renamed.map((step) => step.replace('/file.tmp', '/other')),
  );
  assert.equal(await textOf(disk), 'newer');
});

test('a write that fails at any step leaves the old content, and nothing beside it', async () => {
  for (const failAt of ['create /file.tmp', 'write', 'datasync', 'rename /file.tmp /file']) {
    const disk = new Recording();
    await writeWholeFile(disk, PATH, 'old');
    disk.failAt = failAt;
    await assert.rejects(writeWholeFile(disk, PATH, 'new'), { code: 'EIO' }, failAt);
    disk.failAt = undefined;
    assert.equal(await textOf(disk), 'old', failAt);
    assert.deepEqual([...disk.files.keys()], [PATH], failAt);
  }
});

test('a missing file reads as undefined, a long one is cut, and an unreadable one is an error', async () => {
  const disk = new Recording();
  assert.equal(await readWholeFile(disk, PATH), undefined);
  await writeWholeFile(disk, PATH, 'content');
  assert.equal((await readWholeFile(disk, PATH, 4))?.toString(), 'cont');
  disk.failAt = `read ${PATH}`;
  await assert.rejects(readWholeFile(disk, PATH), { code: 'EIO' });
});
