import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { OrchdError } from '../model/errors.ts';
import { checker } from './check.ts';

const check = checker(
  Type.Object(
    {
      name: Type.String({ maxLength: 3 }),
      size: Type.Optional(Type.Integer({ minimum: 1 })),
      inner: Type.Optional(Type.Object({ kind: Type.Union([Type.Literal('a'), Type.Literal('b')]) })),
    },
    { additionalProperties: false },
  ),
);

test('a valid value is returned unchanged', () => {
  const value = { name: 'abc', size: 1, inner: { kind: 'b' } };
  assert.equal(check(value), value);
});

test('every invalid value is INVALID_PARAMS and names the field', () => {
  const cases: [value: unknown, field: string][] = [
    [{ name: 'abcd' }, 'name'],
    [{ name: 1 }, 'name'],
    [{ name: 'a', size: 0 }, 'size'],
    [{ name: 'a', size: 1.5 }, 'size'],
    [{ name: 'a', inner: { kind: 'c' } }, 'inner.kind'],
    [{ name: 'a', nmae: 'b' }, 'nmae'],
    [{}, 'name'],
  ];
  for (const [value, field] of cases) {
    assert.throws(
      () => check(value),
      (error: unknown) => {
        assert.ok(error instanceof OrchdError);
        assert.equal(error.code, 'INVALID_PARAMS');
        assert.equal(error.details.field, field, JSON.stringify(value));
        assert.ok(error.message.includes(field), error.message);
        return true;
      },
    );
  }
});

test('a value that is no object is refused too', () => {
  for (const value of [undefined, null, 1, 'name', [], () => 0]) {
    assert.throws(() => check(value), { code: 'INVALID_PARAMS' });
  }
});

test('the error lists the allowed values of an enumeration, and suggests the field that a misspelt one was meant to be', () => {
  const either = checker(
    Type.Union([
      Type.Object(
        { as: Type.Literal('one'), message: Type.Optional(Type.String()) },
        { additionalProperties: false },
      ),
      Type.Object(
        { as: Type.Literal('two'), state: Type.Enum(['on', 'off']) },
        { additionalProperties: false },
      ),
    ]),
  );
  const cases: [run: typeof check | typeof either, value: unknown, says: string][] = [
    [check, { name: 'a', inner: { kind: 'c' } }, '"inner.kind" must be one of "a", "b"'],
    [check, { nam: 'a' }, 'the request must not have additional properties: nam; did you mean "name"?'],
    [check, { name: 'a', other: 1 }, 'the request must not have additional properties: other'],
    [
      check,
      { name: 'a', [`${'x'.repeat(9)}/~`]: 1 },
      'the request must not have additional properties: xxxxxxxxx/~',
    ],
    [either, { as: 'three' }, '"as" must be one of "one", "two"'],
    [
      either,
      { as: 'one', mesage: 1 },
      'the request must not have additional properties: mesage; did you mean "message"?',
    ],
    [either, { as: 'two', message: 1 }, 'the request must not have additional properties: message'],
  ];
  for (const [run, value, message] of cases) assert.throws(() => run(value), { message });
  const state = checker(Type.Object({ state: Type.Enum(['on', 'off']) }));
  assert.throws(() => state({ state: 'of' }), { message: '"state" must be one of "on", "off"' });
});
