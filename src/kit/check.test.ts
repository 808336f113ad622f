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
    [check, { nam: 'a' }, 'the request has no field "nam"; did you mean "name"?'],
    [check, { name: 'a', other: 1 }, 'the request has no field "other"'],
    [check, { name: 'a', [`${'x'.repeat(9)}/~`]: 1 }, 'the request has no field "xxxxxxxxx/~"'],
    [either, { as: 'three' }, '"as" must be one of "one", "two"'],
    [either, { as: 'one', mesage: 1 }, 'the request has no field "mesage"; did you mean "message"?'],
    [either, { as: 'two', message: 1 }, 'the request has no field "message"'],
  ];
  for (const [run, value, message] of cases) assert.throws(() => run(value), { message });
  const state = checker(Type.Object({ state: Type.Enum(['on', 'off']) }));
  assert.throws(() => state({ state: 'of' }), { message: '"state" must be one of "on", "off"' });
});

const LABELS = Type.Optional(
  Type.Record(Type.String({ pattern: '^[a-z0-9]+$' }), Type.String(), {
    maxProperties: 3,
    additionalProperties: false,
  }),
);
const Item = Type.Object({ name: Type.String(), labels: LABELS }, { additionalProperties: false });
const checkMany = checker(
  Type.Object(
    {
      items: Type.Union([Type.Array(Item, { maxItems: 20_000 }), Type.Null()]),
      open: Type.Optional(Type.Object({}, { additionalProperties: true })),
    },
    { additionalProperties: false },
  ),
);

const keys = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'x']));

test('a value with too many properties or items is refused by their number', () => {
  const items = (count: number, last: unknown): object[] => [...Array(count).fill({ name: 'a' }), last];
  const cases: [value: unknown, message: string][] = [
    [keys(100), 'the request has no field "k0", "k1", "k2", "k3", "k4"'],
    [{ items: [], ...keys(3) }, 'the request has no field "k0", "k1", "k2"'],
    [{ items: items(20_000, { name: 'b' }) }, '"items" must not have more than 20000 items'],
    [
      { items: items(7, { name: 'b', labels: keys(4) }) },
      '"items.7.labels" must not have more than 3 properties',
    ],
  ];
  for (const [value, message] of cases) assert.throws(() => checkMany(value), { message });
  checkMany({ items: [], open: keys(1000) });
});

test('patterns are not checked on properties that are too many', (t) => {
  const test = t.mock.method(RegExp.prototype, 'test');
  assert.throws(() => checkMany({ items: [{ name: 'a', labels: keys(20_000) }] }));
  assert.ok(test.mock.callCount() < 100, `${test.mock.callCount()} names were checked`);
});

test('the first faulty item of a long array is named, and the others are not searched', (t) => {
  const items: unknown[] = Array.from({ length: 20_000 }, (_, at) => ({ name: `n${at}` }));
  items[19_998] = { nam: 'x' };
  items[19_999] = 7;
  const test = t.mock.method(RegExp.prototype, 'test');
  assert.throws(() => checkMany({ items }), {
    message: '"items.19998" has no field "nam"; did you mean "name"?',
  });
  t.diagnostic(`${test.mock.callCount()} names were checked`);
  assert.ok(test.mock.callCount() < 45_000);
  assert.throws(() => checkMany({ items, itms: [] }), { message: /^the request has no field "itms"/ });
});

test('a name of any length is shortened in the error, and not matched with patterns', (t) => {
  const name = 'n'.repeat(1_000_000);
  const test = t.mock.method(RegExp.prototype, 'test');
  assert.throws(
    () => check({ name: 'a', [name]: 1 }),
    (error: unknown) => error instanceof OrchdError && error.message.length < 400,
  );
  assert.ok(test.mock.calls.every(({ arguments: [text] }) => String(text).length < 1000));
});
