/** What is left of folders that a full disk does not let anybody fill. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeSpoolKit } from '../../test/fakes/spool-kit.ts';
import type { DiskFile, OpenMode } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import { RealDisk } from '../kit/env/real-disk.ts';
import { Actor } from './actor.ts';
import { acquireLock, releaseLock } from './lock.ts';
import { submitJob } from './submit.ts';

/** Takes names, and no content. */
class FullDisk extends RealDisk {
  isFull = false;

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const file = await super.open(path, mode);
    if (this.isFull) file.write = () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' }));
    return file;
  }
}

test('jobs and locks that a full disk refuses leave nothing in the folder of a living actor', async (t) => {
  const disk = new FullDisk();
  const kit = await makeSpoolKit(t, { env: { ...realEnv(), disk } });
  const actor = await Actor.open(kit.spool, 'agent');
  const work = (): string[] => kit.names('tmp', actor.id, 'work');
  const refused = async (): Promise<void> => {
    disk.isFull = true;
    await assert.rejects(submitJob(actor, { name: 'job', prompt: 1, lifecycle: {} }), { code: 'ENOSPC' });
    await assert.rejects(acquireLock(actor, 'job'), { code: 'ENOSPC' });
    disk.isFull = false;
  };
  await refused();
  assert.deepEqual(work(), []);
  const lock = await acquireLock(actor, 'job');
  assert.ok(lock);
  await releaseLock(actor, lock);
  assert.equal(work().length, 1, 'the folder of the lock is kept for the next one');
  await refused();
  assert.deepEqual(work(), []);
  assert.ok(await acquireLock(actor, 'job'));
});
