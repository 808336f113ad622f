/** Copies made of hard links: whoever wrote to one of the two folders would write to both. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createOrchestrator } from '../../src/app/library.ts';
import { PoolFolder } from '../../src/daemons/pool-manager/pool-folder.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { CommandKit, sh } from '../fakes/command-kit.ts';
import { linkFolder } from '../fakes/copy-folder.ts';
import { tempFolder } from './flow-kit.ts';

/** The names, contents and times of all files: what a write changes. */
function contentsOf(folder: string): string[] {
  return fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => {
      const { ino, mtimeNs, ctimeNs } = fs.statSync(path, { bigint: true });
      return [path, ino, mtimeNs, ctimeNs, hash('sha256', fs.readFileSync(path))].join(' ');
    });
}

const start = (data: string, isCopy: boolean) => createOrchestrator({ data, backends: [], isCopy });

/** A data folder with a waiting job, and a copy of it made of hard links. */
async function linkedPair(t: TestContext): Promise<{ root: string; original: string; linked: string }> {
  const root = tempFolder(t);
  const [original, linked] = [join(root, 'original'), join(root, 'linked')];
  const brain = await start(original, false);
  await brain.submit({ job_id: 'job', type: 'later', payload: 'x' });
  await brain.checkpoint();
  await brain.stop();
  linkFolder(original, linked);
  return { root, original, linked };
}

const REFUSED = { code: 'FOLDER_LINKED', message: /shares files with another folder: ".+" is a hard link/ };

test('a data folder that shares files with another is refused, as a copy too, before anything is written', async (t) => {
  const { root, original, linked } = await linkedPair(t);
  const before = contentsOf(root);
  for (const data of [original, linked]) {
    for (const isCopy of [false, true]) await assert.rejects(start(data, isCopy), REFUSED);
  }
  assert.deepEqual(contentsOf(root), before);
});

test('a copy whose marker is its own and whose other files are hard links is refused as a copy', async (t) => {
  const { root, original, linked } = await linkedPair(t);
  fs.rmSync(linked, { recursive: true });
  const [segment = ''] = fs.readdirSync(join(original, 'log'));
  fs.writeFileSync(join(original, 'blobs', '00000001.blob'), 'x');
  for (const file of ['lock', 'history.sqlite', `log/${segment}`, 'log/spare', 'blobs/00000001.blob']) {
    const copy = join(root, 'copy');
    fs.cpSync(original, copy, { recursive: true });
    fs.rmSync(join(copy, file));
    fs.linkSync(join(original, file), join(copy, file));
    const before = contentsOf(root);
    await assert.rejects(start(copy, true), { code: 'FOLDER_LINKED', message: new RegExp(file) });
    assert.deepEqual(contentsOf(root), before, file);
    fs.rmSync(copy, { recursive: true });
  }
});

test('what the refusal advises works: without the other folder it starts, and a copy with files of its own too', async (t) => {
  const { root, original, linked } = await linkedPair(t);
  const copy = join(root, 'copy');
  fs.cpSync(linked, copy, { recursive: true, preserveTimestamps: true });
  const second = await start(copy, true);
  fs.rmSync(linked, { recursive: true });
  const first = await start(original, false);
  for (const brain of [first, second]) {
    assert.equal((await brain.get('job')).state, 'queued');
    await brain.submit({ job_id: 'more', type: 'later', payload: 'x' });
    await brain.stop();
  }
  for (const data of [original, copy]) {
    const brain = await start(data, false);
    assert.equal((await brain.get('more')).state, 'queued');
    await brain.stop();
  }
});

test('folders of commands and of pool managers that share files with others are refused in the same way', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('true'));
  await backend.start();
  await backend.stop();
  const pool = join(kit.root, 'pool');
  await (await PoolFolder.open(realEnv(), pool, false)).close();
  const [commands, pools] = [join(kit.root, 'linked-commands'), join(kit.root, 'linked-pool')];
  linkFolder(kit.folder, commands);
  linkFolder(pool, pools);
  const before = [commands, kit.folder, pools, pool].map(contentsOf);
  for (const isCopy of [false, true]) {
    for (const folder of [kit.folder, commands])
      await assert.rejects(kit.backend(sh('true'), { folder, isCopy }).start(), REFUSED);
    for (const folder of [pool, pools])
      await assert.rejects(PoolFolder.open(realEnv(), folder, isCopy), REFUSED);
  }
  assert.deepEqual([commands, kit.folder, pools, pool].map(contentsOf), before);
});
