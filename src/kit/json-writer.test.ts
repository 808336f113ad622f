import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { stableHash, stableHashInSlices } from './hash.ts';
import { newMeter, textInSlices } from './json-writer.ts';
import type { Sliced } from './slices.ts';

function finish<T>(work: Sliced<T>): { readonly value: T; readonly slices: number } {
  for (let slices = 1; ; slices++) {
    const step = work.next();
    if (step.done) return { value: step.value, slices };
  }
}

const hashOf = (value: unknown): string => finish(stableHashInSlices(value, newMeter())).value;

test('the text is that of JSON.stringify, the hash is stableHash', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (given) => {
      const value: unknown = JSON.parse(JSON.stringify(given));
      assert.equal(finish(textInSlices(value)).value, JSON.stringify(value));
      assert.equal(hashOf(value), stableHash(value));
    }),
    { numRuns: 2000 },
  );
});

test('a long string is written in slices; surrogate pairs stay whole, and lone halves are escaped', () => {
  for (const unit of ['x', '\n', 'é', '🦊', 'a🦊', '\ud800', '\udc00a']) {
    for (const shift of ['', 'b']) {
      const value = [shift + unit.repeat(200_000)];
      const { value: text, slices } = finish(textInSlices(value));
      assert.ok(text === JSON.stringify(value), `${JSON.stringify(unit)} after ${shift.length}`);
      assert.ok(slices > 1);
      assert.equal(hashOf(value), stableHash(value));
    }
  }
});

test('many values are written in slices', () => {
  const value = { rows: Array.from({ length: 50_000 }, (_, at) => ({ b: at, a: [null, true, `${at}`] })) };
  const { value: text, slices } = finish(textInSlices(value));
  assert.ok(text === JSON.stringify(value));
  assert.ok(slices > 20);
  assert.equal(hashOf(value), stableHash(value));
});
