import assert from 'node:assert/strict';
import test from 'node:test';
import { composedText, compositionIn, isComposed, refsIn } from './composed.ts';

const part = { ref: { bytes: 12 }, values: 3, links: 2 };

test('a composition is read back from its text, whatever its rest contains', () => {
  const composition = { parts: ['{"messages":[', part], rest: ',"a\nb"]}\ncomposed:1:' };
  assert.deepEqual(compositionIn(composedText(composition)), composition);
  assert.deepEqual(refsIn(composition), [part.ref]);
});

test('a JSON text is never taken for a composition', () => {
  for (const text of ['{}', '[]', '"composed:1:[]"', 'null', '12', '']) {
    assert.equal(isComposed(text), false);
    assert.equal(compositionIn(text), undefined);
  }
});
