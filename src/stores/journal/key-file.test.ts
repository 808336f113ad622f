import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FaultyDisk } from '../../../test/fakes/faulty-disk.ts';
import { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import type { Disk } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { SealKey } from '../../kit/seal.ts';
import { KeyFile } from './key-file.ts';
import { SLOT_BYTES } from './key-slots.ts';

const PATH = '/session-keys';
const { random } = realEnv();
const owner = (session: string) => ({ tenant: 'default', session });

async function opened(disk: Disk, path = PATH) {
  const failures: Error[] = [];
  const warnings: string[] = [];
  const keys = new KeyFile({ disk, random }, path, {
    failed: (error) => void failures.push(error),
    warn: (message) => void warnings.push(message),
  });
  await keys.open();
  return { keys, failures, warnings };
}

test('a dropped key leaves no byte of it in the file, and its slot is used again', async () => {
  const disk = new MemoryDisk();
  const { keys } = await opened(disk);
  assert.equal(disk.files.has(PATH), false, 'without a session there is no file');
  const [a, b] = [await keys.obtain(owner('a')), await keys.obtain(owner('b'))];
  assert.ok(disk.files.get(PATH)?.includes(a.key));
  await keys.drop(owner('a'));
  const file = disk.files.get(PATH) as Buffer;
  assert.ok(!file.includes(a.key) && !file.includes(Buffer.from(a.id, 'base64url')) && file.includes(b.key));
  assert.ok(file.subarray(0, SLOT_BYTES).equals(Buffer.alloc(SLOT_BYTES)));
  await keys.obtain(owner('c'));
  assert.equal(disk.files.get(PATH)?.length, 2 * SLOT_BYTES);
});

test('a key is handed out, and a drop is answered, only after the sync', async () => {
  const faulty = new FaultyDisk();
  const { keys } = await opened(faulty.disk);
  for (const call of [() => keys.obtain(owner('a')), () => keys.drop(owner('a'))]) {
    faulty.held = Promise.withResolvers();
    let isDone = false;
    const done = Promise.resolve(call()).then(() => {
      isDone = true;
    });
    for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
    assert.equal(isDone, false);
    faulty.held.resolve();
    faulty.held = undefined;
    await done;
  }
});

test('many keys that are asked for at once share a sync', async () => {
  const faulty = new FaultyDisk();
  const { keys } = await opened(faulty.disk);
  await Promise.all(Array.from({ length: 500 }, (_, n) => keys.obtain(owner(`s${n}`))));
  assert.ok(faulty.syncs <= 3, `${faulty.syncs} syncs`);
});

test('what is left of a torn or half dropped key is removed, and the other keys stay', async () => {
  const disk = new MemoryDisk();
  const first = await opened(disk);
  const made: SealKey[] = [];
  for (const name of ['a', 'b', 'c']) made.push(await first.keys.obtain(owner(name)));
  await first.keys.close();
  const whole = Buffer.from(disk.files.get(PATH) as Buffer);
  for (const cut of [1, 17, 40, SLOT_BYTES - 1]) {
    for (const damage of ['zeroed', 'cut']) {
      const bytes = Buffer.from(whole);
      const at = damage === 'cut' ? 2 : 1;
      bytes.fill(0, at * SLOT_BYTES, at * SLOT_BYTES + cut);
      // The first byte of a slot is zero in one of 256.
      if (damage === 'zeroed' && bytes.equals(whole)) continue;
      disk.files.set(PATH, damage === 'cut' ? bytes.subarray(0, 2 * SLOT_BYTES + cut) : bytes);
      const { keys, warnings } = await opened(disk);
      const lost = made[at];
      for (const key of made) {
        const found = await keys.find(key.id);
        if (key === lost) assert.equal(found, undefined);
        else assert.ok(found?.equals(key.key), `${damage} ${cut}`);
      }
      const tail = lost?.key.subarray(24) as Buffer;
      assert.ok(!disk.files.get(PATH)?.includes(tail), `${damage} ${cut}: a part of the key is left`);
      const isJustZeros = damage === 'cut' && cut !== SLOT_BYTES;
      assert.ok(warnings.length === 1 || isJustZeros);
      assert.notEqual((await keys.obtain(owner(['a', 'b', 'c'][at] as string))).id, lost?.id);
      await keys.close();
    }
  }
});

test('a full disk refuses new keys and nothing else, and a broken one stops for good', async () => {
  const faulty = new FaultyDisk();
  const { keys, failures } = await opened(faulty.disk);
  const known = await keys.obtain(owner('a'));
  faulty.maxFileBytes = SLOT_BYTES + 100;
  await assert.rejects(keys.obtain(owner('b')), { code: 'STORE_FULL' });
  assert.ok((await keys.find(known.id))?.equals(known.key));
  const again = await opened(faulty.disk);
  assert.ok((await again.keys.find(known.id))?.equals(known.key), 'it opens on a full disk');
  await again.keys.drop(owner('a'));
  faulty.maxFileBytes = Number.POSITIVE_INFINITY;
  const later = await again.keys.obtain(owner('b'));
  assert.ok((await again.keys.find(later.id))?.equals(later.key));
  assert.deepEqual(failures, []);
  faulty.failsSyncs = true;
  await assert.rejects(again.keys.obtain(owner('c')), { code: 'STORE_FAILED' });
  faulty.failsSyncs = false;
  await assert.rejects(again.keys.obtain(owner('d')), { code: 'STORE_FAILED' });
  assert.equal(again.failures.length, 1);
});

test('the file is closed to other users', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-keys-'));
  try {
    const path = join(folder, 'session-keys');
    const { keys } = await opened(realEnv().disk, path);
    await keys.obtain(owner('a'));
    await keys.close();
    assert.equal(statSync(path).mode & 0o777, 0o600);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
