import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Disk } from './env/env.ts';
import { FolderSyncs } from './folder-syncs.ts';

/** A disk whose syncs are noted, and fail for the folder `bad`; timers that fire when `fire` is called. */
function world() {
  const synced: string[] = [];
  const timers: (() => void)[] = [];
  const disk = {
    async syncFolder(path: string): Promise<void> {
      synced.push(path);
      if (path === 'bad') throw new Error('EIO');
    },
  } as Disk;
  const syncs = new FolderSyncs(disk, {
    after(_, run) {
      timers.push(run);
      return () => void timers.splice(timers.indexOf(run), 1);
    },
    soon: (run) => void setImmediate(run),
  });
  return { syncs, synced, fire: () => timers.shift()?.() };
}

test('a transaction that is alone waits for nobody, nor does who is in none', async () => {
  const { syncs, synced } = world();
  await syncs.during(() => syncs.sync('a', 'b'));
  await syncs.sync('c');
  assert.deepEqual(synced, ['a', 'b', 'c']);
});

test('transactions under way share a sync, whatever they do before it', async () => {
  const { syncs, synced } = world();
  const go = Promise.withResolvers<void>();
  const slow = syncs.during(async () => {
    await go.promise;
    await syncs.sync('b', 'c');
  });
  const fast = syncs.during(() => syncs.sync('a', 'b'));
  await turn();
  assert.deepEqual(synced, []);
  go.resolve();
  await Promise.all([slow, fast]);
  assert.deepEqual(synced, ['a', 'b', 'c']);
});

test('nobody waits for a transaction that has ended, or has failed', async () => {
  const { syncs, synced } = world();
  const go = Promise.withResolvers<void>();
  const refused = syncs.during(() => go.promise);
  const other = syncs.during(() => syncs.sync('a'));
  await turn();
  assert.deepEqual(synced, []);
  go.reject(new Error('refused'));
  await assert.rejects(refused);
  await other;
  assert.deepEqual(synced, ['a']);
});

test('nobody waits longer than a while for transactions that do not come', async () => {
  const { syncs, synced, fire } = world();
  void syncs.during(() => new Promise(() => undefined));
  const first = syncs.during(() => syncs.sync('a'));
  await turn();
  assert.deepEqual(synced, []);
  fire();
  await first;
  assert.deepEqual(synced, ['a']);
});

test('a sync that fails fails for those who have asked for this folder', async () => {
  const { syncs } = world();
  const asked = ['bad', 'good'].map((folder) => syncs.during(() => syncs.sync(folder)));
  const [bad, good] = await Promise.allSettled(asked);
  assert.deepEqual([bad?.status, good?.status], ['rejected', 'fulfilled']);
});

test('who asks while a folder is being synced gets the next sync of it', async () => {
  const { syncs, synced } = world();
  await Promise.all([syncs.sync('a'), syncs.sync('a'), syncs.sync('a')]);
  assert.deepEqual(synced, ['a', 'a']);
});
