import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { stableHash } from './hash.ts';

test('the order of keys does not matter, the order of items does', () => {
  assert.equal(stableHash({ a: 1, b: { c: 2, d: 3 } }), stableHash({ b: { d: 3, c: 2 }, a: 1 }));
  assert.notEqual(stableHash([1, 2]), stableHash([2, 1]));
});

test('an undefined field hashes like an absent one', () => {
  assert.equal(stableHash({ a: 1, b: undefined }), stableHash({ a: 1 }));
  assert.notEqual(stableHash({ a: 1, b: null }), stableHash({ a: 1 }));
});

test('two JSON values have the same hash exactly when they are equal', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      const [left, right] = [JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b))];
      assert.equal(stableHash(left), stableHash(structuredClone(left)));
      let equal = true;
      try {
        assert.deepEqual(left, right);
      } catch {
        equal = false;
      }
      assert.equal(stableHash(left) === stableHash(right), equal);
    }),
  );
});

test('a string that looks like JSON structure hashes differently from that structure', () => {
  const twins: [unknown, unknown][] = [
    [{ a: 'b","c":"d' }, { a: 'b', c: 'd' }],
    [['a,b'], ['a', 'b']],
    ['1', 1],
    ['null', null],
    [[], {}],
  ];
  for (const [a, b] of twins) assert.notEqual(stableHash(a), stableHash(b));
});

test('a value hashes like its JSON form', () => {
  const value = { at: new Date(1), deep: [{ at: new Date(2) }] };
  assert.equal(stableHash(value), stableHash(JSON.parse(JSON.stringify(value))));
  assert.notEqual(stableHash({ at: new Date(1) }), stableHash({ at: new Date(2) }));
});

test('the hash is that of the JSON text with sorted keys, as stored hashes are', () => {
  const value = {
    b: [1, 'x', null, undefined],
    a: { d: undefined, c: 1.5, toJSON: undefined },
    e: Number.NaN,
  };
  const text = '{"a":{"c":1.5},"b":[1,"x",null,null],"e":null}';
  assert.equal(stableHash(value), createHash('sha256').update(text).digest('hex'));
  assert.equal(stableHash(undefined), createHash('sha256').update('null').digest('hex'));
});

test('a text that is hashed with a value counts', () => {
  assert.notEqual(stableHash({ a: 1 }, '{"b":1}'), stableHash({ a: 1 }, '{"b":2}'));
  assert.notEqual(stableHash({ a: 1 }, '{"b":1}'), stableHash({ a: 2 }, '{"b":1}'));
});
