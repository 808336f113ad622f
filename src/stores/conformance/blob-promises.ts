/** Promises about blobs: large payloads and results, stored outside the records. */
import assert from 'node:assert/strict';
import type { BlobRef } from '../../model/body.ts';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const BLOB_PROMISES: readonly StorePromise[] = [
  ['a blob is read back unchanged, whatever it contains, also after a restart', roundTrip],
  ['blobs that are put concurrently do not mix', concurrent],
  ['a reference survives JSON, which is how records store it', throughJson],
  ['reading a missing blob is an error, never another text', missing],
];

const MIB = 2 ** 20;
const TEXTS = [
  '',
  'x',
  'Zürich 🦊👩‍👩‍👧‍👦 日本語 \u0000 \u2028 end',
  `${'🦊'.repeat(MIB / 4)}`,
  'a'.repeat(MIB - 1),
  'b'.repeat(2 * MIB),
  `${'🦊'.repeat(MIB)}${'c'.repeat(17 * MIB)}`,
  JSON.stringify({ text: '\\"\n\t', deep: [[[]]] }),
];

async function roundTrip(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const refs: BlobRef[] = [];
  for (const text of TEXTS) refs.push(await opened.store.putBlob(text));
  for (const round of ['written', 'reopened']) {
    for (const [at, text] of TEXTS.entries()) {
      const read = String(await opened.store.readBlob(refs[at] as BlobRef));
      assert.ok(
        read === text,
        `${round}: text ${at} of ${text.length} characters was read as ${read.length}`,
      );
    }
    opened = await reopen(fixture, opened);
  }
  const later = await opened.store.putBlob('later');
  assert.equal(String(await opened.store.readBlob(later)), 'later');
  assert.equal(
    String(await opened.store.readBlob(refs[1] as BlobRef)),
    'x',
    'later blobs do not overwrite it',
  );
  await opened.close();
}

async function concurrent(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const texts = Array.from({ length: 300 }, (_, n) => `${n}:${'🦊é'.repeat(n % 17)}`);
  const refs = await Promise.all(texts.map((text) => opened.store.putBlob(text)));
  const read = await Promise.all(refs.map((ref) => opened.store.readBlob(ref)));
  assert.deepEqual(read.map(String), texts);
  for (const [at, { bytes }] of refs.entries()) assert.equal(bytes, Buffer.byteLength(texts[at] as string));
  await opened.close();
}

async function throughJson(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const payload = await opened.store.putBlob('the payload');
  opened.submit('a', { payload });
  opened = await reopen(fixture, opened);
  const kept = opened.job('a').ask.payload as BlobRef;
  assert.deepEqual(kept, payload);
  assert.equal(String(await opened.store.readBlob(kept)), 'the payload');
  await opened.close();
}

async function missing(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const ref = await opened.store.putBlob('something');
  await assert.rejects(opened.store.readBlob(fixture.lost(ref)), { code: 'STORE_CORRUPT' });
  await opened.close();
}
