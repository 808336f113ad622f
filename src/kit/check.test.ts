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

test('a value of the right form is handed on as it is', () => {
  const value = { name: 'abc', size: 1, inner: { kind: 'b' } };
  assert.equal(check(value), value);
});

test('every wrong form is INVALID_PARAMS and names the field', () => {
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

test('what is no object at all is refused too', () => {
  for (const value of [undefined, null, 1, 'name', [], () => 0]) {
    assert.throws(() => check(value), { code: 'INVALID_PARAMS' });
  }
});
