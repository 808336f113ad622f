import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ggufHeader } from '../../../test/fakes/gguf-header.ts';
import { readGguf } from './gguf.ts';

const LLAMA = {
  'general.architecture': 'llama',
  'general.name': 'a model',
  'llama.context_length': 4096,
  'llama.block_count': 32,
  'llama.embedding_length': 4096,
  'llama.attention.head_count': 32,
  'llama.attention.head_count_kv': 8,
  'tokenizer.ggml.tokens': ['a', 'b', 'c'],
};

test('context length and cache bytes per token are read', () => {
  assert.deepEqual(readGguf(ggufHeader(LLAMA)), {
    architecture: 'llama',
    contextLength: 4096,
    kvBytesPerToken: 32 * 8 * 256 * 2,
  });
  const layers = { ...LLAMA, 'llama.attention.head_count_kv': [2, 8, 4] };
  assert.equal(readGguf(ggufHeader(layers))?.kvBytesPerToken, 32 * 8 * 256 * 2);
});

test('entries before the end of the bytes count, and a file that is not GGUF gives nothing', () => {
  const whole = ggufHeader(LLAMA);
  assert.equal(readGguf(whole.subarray(0, whole.length - 20))?.contextLength, 4096);
  assert.equal(readGguf(Buffer.from('GGUX')), undefined);
  assert.equal(readGguf(Buffer.alloc(0)), undefined);
  assert.deepEqual(readGguf(Buffer.from('GGUF')), {});
});

test('hostile bytes end the reading and nothing else', () => {
  const whole = ggufHeader(LLAMA);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.uint8Array({ minLength: 1, maxLength: 16 }), (at, bytes) => {
      const broken = Buffer.from(whole);
      broken.set(bytes.subarray(0, broken.length - at), at);
      const { contextLength = 1, kvBytesPerToken = 1 } = readGguf(broken) ?? {};
      assert.ok(Number.isSafeInteger(contextLength) && contextLength > 0);
      assert.ok(Number.isSafeInteger(kvBytesPerToken) && kvBytesPerToken > 0);
    }),
    { numRuns: 500 },
  );
  // An array of arrays with an absurd length.
  const endless = Buffer.concat([
    whole.subarray(0, 24),
    Buffer.from('0100000000000000610900000009000000ffffffffffffff7f', 'hex'),
  ]);
  assert.deepEqual(readGguf(endless), {});
});
