import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { CommandKit, offerOf, sh, until, WHO } from '../../../../test/fakes/command-kit.ts';
import { isAlive, type ProcessIdentity } from '../../../kit/process/identity.ts';
import type { OwnerRecord } from './layout.ts';

const ownerOf = (kit: CommandKit): OwnerRecord => kit.record(kit.paths('job:1').owner);

describe('a copied folder', () => {
  /** A command that runs, and a copy of its backend's folder. */
  async function withCopy(
    t: TestContext,
  ): Promise<{ kit: CommandKit; child: ProcessIdentity; copy: string }> {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('exec sleep 600'));
    await backend.start();
    await backend.offer(offerOf('job:1'));
    const child = await until(() => kit.wrapper('job:1'));
    const copy = join(kit.root, 'copy');
    fs.cpSync(kit.folder, copy, { recursive: true, preserveTimestamps: true });
    return { kit, child, copy };
  }

  test('is refused, and nothing of the original is touched', async (t) => {
    const { kit, child, copy } = await withCopy(t);
    const backend = kit.backend(sh('true'), { folder: copy });
    await assert.rejects(backend.start(), { code: 'FOLDER_COPIED' });
    await assert.rejects(backend.kill('job:1', WHO), { code: 'FOLDER_COPIED' });
    assert.ok(isAlive(child) && isAlive(ownerOf(kit)));
  });

  test('that is said to be one begins anew: it knows nothing of the original, and ends nothing of it', async (t) => {
    const { kit, child, copy } = await withCopy(t);
    const [original] = [kit.record<{ id: string }>(join(kit.folder, 'registry.json'))];
    const backend = kit.backend(sh('true'), { folder: copy, isCopy: true, slots: 1 });
    await backend.start();
    assert.notEqual(backend.info.registry, original.id);
    const { known } = await backend.inspect(['job:1'], { owner: 'copy', epoch: 1 });
    assert.equal(known.size, 0);
    assert.deepEqual(await backend.offer({ ...offerOf('job:1'), owner: 'copy' }), { is: 'accepted' });
    await until(
      async () =>
        (await backend.inspect(['job:1'], { owner: 'copy', epoch: 1 })).known.get('job:1')?.is === 'ended',
    );
    assert.ok(isAlive(child) && isAlive(ownerOf(kit)));
    // The next start needs no word about it.
    await backend.stop();
    await kit.backend(sh('true'), { folder: copy }).start();
  });

  test('is not taken for one because it was moved on the same disk', async (t) => {
    const { kit, copy } = await withCopy(t);
    const moved = join(kit.root, 'moved');
    await kit.backend(sh('true'), { folder: copy, isCopy: true }).start();
    fs.renameSync(copy, moved);
    await kit.backend(sh('true'), { folder: moved }).start();
  });
});
