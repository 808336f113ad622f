import assert from 'node:assert/strict';
import { test } from 'node:test';
import { argumentsCheck } from './arguments.ts';
import { linearSchema } from './foreign-schema.ts';

const checkOf = (parameters: object) =>
  argumentsCheck({ name: 't', parameters: linearSchema(parameters as never) });

test('types, fields and values are checked as they are; a field may have the name of a keyword', () => {
  const check = checkOf({
    type: 'object',
    properties: {
      pattern: { type: 'string', enum: ['a', 'b'] },
      $ref: { type: 'array', items: { anyOf: [{ type: 'integer' }, { type: 'null' }] } },
    },
    required: ['pattern'],
    additionalProperties: false,
  });
  for (const fine of [{ pattern: 'a' }, { pattern: 'b', $ref: [1, null] }])
    assert.equal(check(JSON.stringify(fine)).ok, true, JSON.stringify(fine));
  for (const wrong of [{}, { pattern: 'c' }, { pattern: 'a', more: 1 }, { pattern: 'a', $ref: ['x'] }])
    assert.equal(check(JSON.stringify(wrong)).ok, false, JSON.stringify(wrong));
});

test('a pattern that takes for ever, and references that double, stop nobody', () => {
  const doubling = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [
      `d${at}`,
      at === 59
        ? { type: 'string' }
        : { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
    ]),
  );
  const check = checkOf({
    type: 'object',
    properties: { text: { type: 'string', pattern: '^(a+)+$' }, deep: { $ref: '#/$defs/d0' } },
    patternProperties: { '^(b+)+$': { type: 'string' } },
    propertyNames: { pattern: '^(c+)+$' },
    additionalProperties: false,
    $defs: doubling,
  });
  const args = {
    text: `${'a'.repeat(40)}!`,
    deep: 'x',
    [`${'b'.repeat(40)}!`]: 'x',
    [`${'c'.repeat(40)}!`]: 1,
  };
  assert.equal(check(JSON.stringify(args)).ok, true);
  assert.equal(check('{"text": 1}').ok, false);
});

test('what the whole schema lets pass, the part does too', () => {
  const check = checkOf({
    type: 'object',
    oneOf: [{ properties: { a: { pattern: 'x' } } }, { properties: { a: { pattern: 'y' } } }],
    not: { properties: { a: { pattern: 'z' } }, required: ['a'] },
  });
  assert.equal(check('{"a": "y"}').ok, true);
});
