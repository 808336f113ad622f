/** Damage to checkpoints: the generation before is used with every acknowledged job, or the start is refused. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { OrchdError } from '../../src/model/errors.ts';
import type { Change } from '../../src/model/records.ts';
import { readManifest } from '../../src/stores/journal/checkpoint/manifest.ts';
import { paths } from '../../src/stores/journal/layout.ts';
import { FolderMaker, JobScript, NOW, newState } from '../fakes/folder-maker.ts';
import type { MemoryDisk } from '../fakes/memory-disk.ts';
import { type Opened, openStore } from '../fakes/open-store.ts';
import { recover, stateHash } from '../fakes/restored.ts';

const PATHS = paths('/data');
const JOBS = ['a', 'b', 'c', 'd', 'e', 'f'];

/** Two checkpoints with jobs before, between and behind them. */
async function makeFolder(): Promise<{ maker: FolderMaker; disk: MemoryDisk; hash: string }> {
  const maker = await FolderMaker.make();
  const add = async (id: string): Promise<void> => {
    const job = new JobScript(id);
    await maker.add(...job.ask(maker.next, { key: `key-${id}` }), ...job.claim(), ...job.start());
  };
  for (const [at, id] of JOBS.entries()) {
    await add(id);
    if (at === 1 || at === 3) await maker.checkpoint();
  }
  const disk = maker.disk as MemoryDisk;
  const state = newState();
  await recover(disk, PATHS, state, NOW);
  return { maker, disk, hash: stateHash(state) };
}

const flip = (bytes: Buffer, bit: number): void => {
  bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
};

async function partsOf(disk: MemoryDisk, manifest: string): Promise<string[]> {
  const { parts } = (await readManifest(disk, manifest)) ?? { parts: [] };
  return parts.map(({ name }) => join(PATHS.parts, name));
}

const fileOf = (disk: MemoryDisk, path: string | undefined): Buffer => {
  const bytes = disk.files.get(path ?? '');
  assert.ok(bytes, `${path} is not there`);
  return bytes;
};

/** Appends changes as a brain does, and waits until they are durable. */
async function commit({ store, state, durable }: Opened, changes: readonly Change[]): Promise<void> {
  for (const change of changes) state.apply(change, NOW);
  await durable(store.append(changes, NOW));
}

test('a damaged part: the previous generation is used, with every job, and it is said', async () => {
  const { disk, hash } = await makeFolder();
  flip(fileOf(disk, (await partsOf(disk, PATHS.manifest))[0]), 99);
  const { store, state, warnings } = await openStore(disk);
  assert.deepEqual([...state.jobs.keys()].sort(), JOBS);
  assert.equal(stateHash(state), hash);
  assert.match(warnings.join(), /the newest checkpoint was not used: checkpoints\/.* does not match/);
  await store.close();
});

test('a missing part: the previous generation is used, with every job', async () => {
  const { disk, hash } = await makeFolder();
  await disk.remove((await partsOf(disk, PATHS.manifest))[0] ?? '');
  const { store, state, warnings } = await openStore(disk);
  assert.equal(stateHash(state), hash);
  assert.equal(warnings.length, 1);
  await store.close();
});

test('a flipped bit of the newest generation, any of its manifest and many of its parts, changes nothing', async () => {
  const { disk, hash } = await makeFolder();
  for (const path of [PATHS.manifest, ...(await partsOf(disk, PATHS.manifest))]) {
    const bytes = fileOf(disk, path);
    // Parts have one checksum over all their bytes: every fifth bit of them is enough.
    for (let bit = 0; bit < bytes.length * 8; bit += path === PATHS.manifest ? 1 : 5) {
      flip(bytes, bit);
      const state = newState();
      const { fallback } = await recover(disk, PATHS, state, NOW);
      flip(bytes, bit);
      assert.equal(stateHash(state), hash, `${path} bit ${bit}`);
      assert.ok(fallback, `${path} bit ${bit} was not noticed`);
    }
  }
});

test('a flipped bit of the only generation is refused with its position', async () => {
  const { disk } = await makeFolder();
  await disk.remove(PATHS.previousManifest);
  for (const path of [PATHS.manifest, ...(await partsOf(disk, PATHS.manifest))]) {
    const bytes = fileOf(disk, path);
    for (let bit = 0; bit < bytes.length * 8; bit += 3) {
      flip(bytes, bit);
      await assert.rejects(recover(disk, PATHS, newState(), NOW), (error) => {
        assert.ok(error instanceof OrchdError, String(error));
        assert.equal(error.code, 'STORE_CORRUPT');
        assert.equal(`/data/${error.details.position}`, `${path}:0`);
        return true;
      });
      flip(bytes, bit);
    }
  }
});

test('both generations damaged: refused, and nothing is touched', async () => {
  const { disk } = await makeFolder();
  for (const manifest of [PATHS.manifest, PATHS.previousManifest]) {
    flip(fileOf(disk, (await partsOf(disk, manifest))[0]), 99);
  }
  const before = [...disk.files].map(([path, bytes]) => [path, bytes.toString('hex')]);
  await assert.rejects(openStore(disk), { code: 'STORE_CORRUPT' });
  const after = [...disk.files].filter(([path]) => path !== PATHS.lock);
  assert.deepEqual(
    after.map(([path, bytes]) => [path, bytes.toString('hex')]),
    before,
  );
});

test('a crash anywhere between the writes of a new checkpoint: the old one or the new one, never a mix', async () => {
  const { maker, disk, hash } = await makeFolder();
  const steps: MemoryDisk[] = [];
  const watched = watch(disk, () => steps.push(disk.copy()));
  Object.assign(maker, { disk: watched });
  await maker.checkpoint();
  assert.ok(steps.length >= 8, `${steps.length} steps`);
  for (const [at, step] of steps.entries()) {
    const state = newState();
    await recover(step, PATHS, state, NOW);
    assert.equal(stateHash(state), hash, `after step ${at}`);
  }
});

/** Calls back after every change to the disk. */
function watch(disk: MemoryDisk, changed: () => void): MemoryDisk {
  const seen = <T>(result: T): T => {
    changed();
    return result;
  };
  return new Proxy(disk, {
    get(target, name) {
      if (name === 'open') {
        return async (path: string, mode: 'read' | 'write' | 'create') => {
          const file = await target.open(path, mode);
          changed();
          const write = async (position: number, data: Uint8Array): Promise<void> =>
            seen(await file.write(position, data));
          return { ...file, write };
        };
      }
      if (name === 'rename') return async (from: string, to: string) => seen(await target.rename(from, to));
      const member = Reflect.get(target, name, target) as unknown;
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

test('after a fall back the next checkpoint keeps two generations that can be used', async () => {
  const { disk } = await makeFolder();
  flip(fileOf(disk, (await partsOf(disk, PATHS.manifest))[0]), 99);
  const first = await openStore(disk);
  await commit(first, new JobScript('g').ask(first.state.seq + 1));
  await first.store.checkpoint();
  await commit(first, new JobScript('h').ask(first.state.seq + 1));
  const hash = stateHash(first.state);
  await first.store.close();
  // The new generation is damaged too: the one that was used before must still be there.
  flip(fileOf(disk, (await partsOf(disk, PATHS.manifest))[0]), 99);
  const second = await openStore(disk);
  assert.equal(stateHash(second.state), hash);
  await second.store.close();
});
