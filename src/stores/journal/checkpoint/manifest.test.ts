import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import { paths } from '../layout.ts';
import { type Manifest, readManifest, writeManifest } from './manifest.ts';

const where = paths('/data');
const manifest = (seq: number, format = 1): Manifest => ({
  format,
  seq,
  chain: 123456789,
  at: 1_800_000_000_000,
  parts: [{ name: `${String(seq).padStart(16, '0')}-0.part`, bytes: 10, crc: 4_000_000_000, records: 2 }],
});

async function written(...manifests: readonly Manifest[]): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  await disk.makeFolder(where.folder);
  for (const each of manifests) await writeManifest(disk, where, each);
  return disk;
}

test('a manifest is read back as it was written, and the one before it is kept', async () => {
  const disk = await written(manifest(10), manifest(20), manifest(30));
  assert.deepEqual(await readManifest(disk, where.manifest), manifest(30));
  assert.deepEqual(await readManifest(disk, where.previousManifest), manifest(20));
  assert.equal(await disk.stat(where.temporaryManifest), undefined);
});

test('a missing manifest is read as undefined', async () => {
  const disk = await written(manifest(10));
  assert.equal(await readManifest(disk, where.previousManifest), undefined);
});

test('a manifest with any flipped bit is refused, and the error names the file', async () => {
  const disk = await written(manifest(10));
  const bytes = disk.files.get(where.manifest) as Buffer;
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    await assert.rejects(
      readManifest(disk, where.manifest),
      { code: 'STORE_CORRUPT', details: { position: 'checkpoint.json:0' } },
      `bit ${bit}`,
    );
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
  }
});

test('a manifest that is cut at any byte is refused', async () => {
  const disk = await written(manifest(10));
  const bytes = disk.files.get(where.manifest) as Buffer;
  for (let length = 0; length < bytes.length - 1; length++) {
    disk.files.set(where.manifest, bytes.subarray(0, length));
    await assert.rejects(readManifest(disk, where.manifest), { code: 'STORE_CORRUPT' }, `${length} bytes`);
  }
});

test('a manifest of a newer format is not reported as damaged', async () => {
  const disk = await written(manifest(10, 2));
  await assert.rejects(readManifest(disk, where.manifest), { code: 'STORE_TOO_NEW' });
});

test('a crash between the two renames leaves the previous manifest to start from', async () => {
  const disk = await written(manifest(10), manifest(20));
  // The current manifest is renamed already, the new one is not yet.
  await disk.rename(where.manifest, where.previousManifest);
  assert.equal(await readManifest(disk, where.manifest), undefined);
  assert.deepEqual(await readManifest(disk, where.previousManifest), manifest(20));
});
