import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from './env/real.ts';
import { isSealed, keyIdOf, newKey, seal, sealedBytes, unseal } from './seal.ts';

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
