import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HfRef } from '../../model/model-ref.ts';
import { chooseFile } from './hub-cache.ts';

const ref: HfRef = { kind: 'hf', org: 'o', repo: 'r' };

test('the choice does not depend on the order of the files, and is a complete model', () => {
  const files = ['README.md', 'mmproj-f16.gguf', 'x-Q8_0.gguf', 'x-q4_k_m.gguf', 'a-00002-of-00002.gguf'];
  assert.equal(chooseFile(files, ref), 'x-q4_k_m.gguf');
  assert.equal(chooseFile(files.toReversed(), ref), 'x-q4_k_m.gguf');
  assert.equal(
    chooseFile(['b.gguf', 'a-00001-of-00002.gguf', 'a-00002-of-00002.gguf'], ref),
    'a-00001-of-00002.gguf',
  );
  assert.equal(chooseFile(files, { ...ref, file: 'x-Q8_0.gguf' }), 'x-Q8_0.gguf');
  assert.throws(() => chooseFile(files, { ...ref, file: 'none.gguf' }), { code: 'MODEL_NOT_FOUND' });
  assert.throws(() => chooseFile(['README.md', 'mmproj-f16.gguf'], ref), { code: 'MODEL_NOT_FOUND' });
});
