import assert from 'node:assert/strict';
import { createCipheriv, createDecipheriv } from 'node:crypto';
import { test } from 'node:test';
import { realEnv } from './env/real.ts';
import {
  isSealed,
  keyIdOf,
  newKey,
  type SealKey,
  seal,
  sealedBytes,
  sealInSlices,
  unseal,
  unsealInSlices,
} from './seal.ts';
import type { Sliced } from './slices.ts';

const { random } = realEnv();
const TEXTS = ['', '""', '"Zürich 🦊"', JSON.stringify({ text: 'x'.repeat(10_000) })];

test('a sealed text is opened by its key, as text and as bytes, and shows nothing of what it says', () => {
  const key = newKey(random);
  for (const text of TEXTS) {
    const sealed = seal(text, key, random);
    assert.ok(isSealed(sealed) && isSealed(Buffer.from(sealed)));
    assert.equal(keyIdOf(sealed), key.id);
    assert.equal(String(unseal(sealed, key.key)), text);
    assert.equal(String(unseal(Buffer.from(sealed), key.key)), text);
    assert.equal(Buffer.byteLength(sealed), sealedBytes(Buffer.byteLength(text)));
    if (text.length > 8)
      assert.ok(!Buffer.from(sealed.split(':')[3] ?? '', 'base64').includes(text.slice(1, 7)));
  }
});

test('no two sealed texts are equal, though the texts are', () => {
  const key = newKey(random);
  const sealed = new Set(Array.from({ length: 1000 }, () => seal('"same"', key, random)));
  assert.equal(sealed.size, 1000);
  assert.notEqual(newKey(random).id, newKey(random).id);
});

test('a changed text, a cut one and another key open nothing', () => {
  const key = newKey(random);
  const sealed = seal('"something"', key, random);
  const start = sealed.lastIndexOf(':') + 1;
  for (let at = start; at < sealed.length - 2; at++) {
    const changed = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
    assert.equal(unseal(changed, key.key), undefined, `changed at ${at}`);
    assert.equal(unseal(sealed.slice(0, at), key.key), undefined, `cut at ${at}`);
  }
  assert.equal(unseal(sealed, newKey(random).key), undefined);
});

test('no JSON text is taken for a sealed one, and no damaged head for an id', () => {
  for (const text of ['', 'null', '"sealed:1:a:b"', '{}', 'sealed:2:a:b']) {
    assert.ok(!isSealed(text), text);
    assert.ok(!isSealed(Buffer.from(text)), text);
    assert.equal(unseal(text, newKey(random).key), undefined);
  }
  for (const text of ['sealed:1:', 'sealed:1::AAAA', 'sealed:1:a b:AAAA', `sealed:1:${'a'.repeat(100)}:AAAA`])
    assert.equal(keyIdOf(text), undefined, text);
});

/** Sealed and opened in one piece, as earlier versions did it. */
const whole = {
  seal(text: string, { id, key }: SealKey): string {
    const nonce = Buffer.from(random.hex(12), 'hex');
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 });
    const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return `sealed:1:${id}:${bytes.toString('base64')}`;
  },
  open(sealed: string, { key }: SealKey): string {
    const bytes = Buffer.from(sealed.slice(sealed.lastIndexOf(':') + 1), 'base64');
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAuthTag(bytes.subarray(-16));
    return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString();
  },
};

/** The value of a sliced work, and the number of its slices. */
function sliced<T>(work: Sliced<T>): { value: T; slices: number } {
  for (let slices = 1; ; slices++) {
    const step = work.next();
    if (step.done) return { value: step.value, slices };
  }
}

const SLICE_CHARS = 512 * 1024;

test('a text of any length is sealed as it would be in one piece', () => {
  const key = newKey(random);
  for (const length of [0, 1, 2, 3, SLICE_CHARS - 1, SLICE_CHARS, SLICE_CHARS + 1, 3 * SLICE_CHARS + 2]) {
    for (const text of ['x'.repeat(length), `${'x'.repeat(length % 2)}${'🦊'.repeat(length / 2)}ü`]) {
      assert.ok(whole.open(seal(text, key, random), key) === text, `${length}`);
      const sealed = whole.seal(text, key);
      for (const given of [sealed, Buffer.from(sealed)])
        assert.ok(String(unseal(given, key.key)) === text, `${length}`);
    }
  }
});

test('a long text is sealed and opened in slices, and a changed one opens nothing', () => {
  const key = newKey(random);
  const text = 'x'.repeat(16e6);
  const sealing = sliced(sealInSlices(text, key, random));
  assert.ok(sealing.slices >= 16e6 / SLICE_CHARS, `${sealing.slices} slices`);
  const opening = sliced(unsealInSlices(sealing.value, key.key));
  assert.ok(String(opening.value) === text);
  // It is decoded in slices, and then opened.
  assert.ok(opening.slices >= (16e6 * (1 + 4 / 3)) / SLICE_CHARS - 2, `${opening.slices} slices`);
  for (const at of [100, 1e6, sealing.value.length - 5]) {
    const changed = Buffer.from(sealing.value);
    changed[at] = changed[at] === 65 ? 66 : 65;
    assert.equal(unseal(changed, key.key), undefined);
  }
});
