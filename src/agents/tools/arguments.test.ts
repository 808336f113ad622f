import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Type from 'typebox';
import { OrchdError } from '../../model/errors.ts';
import { argumentsCheck, MAX_ARGUMENT_BYTES } from './arguments.ts';
import type { JsonSchema } from './tool.ts';

const PARAMETERS = {
  type: 'object',
  properties: {
    path: { type: 'string', minLength: 1 },
    order: { enum: ['name', 'size'] },
    filter: { type: 'object', properties: { kind: { type: 'string' } }, required: ['kind'] },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['path'],
  additionalProperties: false,
} as const;

const checkOf = (parameters: JsonSchema) => argumentsCheck({ name: 'sample', parameters });

function refusal(text: string, parameters: JsonSchema = PARAMETERS): string {
  const checked = checkOf(parameters)(text);
  assert.ok(!checked.ok, `expected a refusal of ${text.slice(0, 100)}`);
  return checked.message;
}

describe('arguments of a call', () => {
  test('that fit the schema are returned', () => {
    assert.deepEqual(checkOf(PARAMETERS)('{"path": "a", "tags": ["x"]}'), {
      ok: true,
      args: { path: 'a', tags: ['x'] },
    });
  });

  test('may be empty, as models write a call without arguments', () => {
    for (const text of ['', '  \n', '{}'])
      assert.deepEqual(checkOf({ type: 'object' })(text), { ok: true, args: {} });
    assert.equal(refusal(''), 'the call needs "path"');
  });

  test('that do not fit are refused with the name of the field', () => {
    assert.equal(refusal('{"path": 5}'), '"path" must be a string');
    assert.equal(refusal('{"path": "a", "order": "date"}'), '"order" must be one of "name", "size"');
    assert.equal(refusal('{"path": "a", "filter": {}}'), '"filter" needs "kind"');
    assert.equal(refusal('{"path": "a", "filter": {"kind": 1}}'), '"filter.kind" must be a string');
    assert.equal(refusal('{"pth": "a"}'), 'the call has no field "pth"; did you mean "path"?');
    assert.match(refusal('{"path": "", "order": "name"}'), /^"path" must/);
    const tags = JSON.stringify([...Array(40).fill('x'), 7]);
    assert.equal(refusal(`{"path": "a", "tags": ${tags}}`), '"tags.40" must be a string');
  });

  test('that are no JSON object are refused', () => {
    for (const text of [
      '{',
      '{"path": "a"} and more',
      "{'path': 'a'}",
      '{"path": "a",}',
      'NaN',
      '```json\n{}\n```',
    ])
      assert.match(refusal(text), /not valid JSON/, text);
    for (const text of ['null', '[]', '"path"', '3', 'true'])
      assert.match(refusal(text), /must be a JSON object/);
  });

  test('have bounds of bytes and depth', () => {
    const open = { type: 'object' };
    const long = (chars: number, letter: string): string => `{"a": "${letter.repeat(chars)}"}`;
    assert.ok(checkOf(open)(long(MAX_ARGUMENT_BYTES - 9, 'x')).ok);
    assert.match(refusal(long(MAX_ARGUMENT_BYTES - 8, 'x'), open), /larger than 65536 bytes/);
    assert.match(refusal(long(MAX_ARGUMENT_BYTES / 2, 'ä'), open), /larger than 65536 bytes/);
    assert.match(refusal('x'.repeat(2 ** 24), open), /larger than/);
    for (const depth of [100, 30_000])
      assert.match(refusal(`{"a": ${'['.repeat(depth)}${']'.repeat(depth)}}`, open), /nested too deeply/);
  });

  test('cannot reach the prototype of objects', () => {
    const open = { type: 'object' };
    for (const text of [
      '{"__proto__": {"admin": true}}',
      '{"a": [{"__proto__": null}]}',
      '{"\\u005f_proto__": {"admin": true}}',
      '{"a": {"constructor": {"prototype": {"admin": true}}}}',
    ])
      assert.match(refusal(text, open), /not allowed/, text);
    assert.ok(checkOf(open)('{"constructor": "Bosch", "toString": 1}').ok);
  });

  test('a field with a huge name does not make a huge message', () => {
    assert.ok(refusal(`{"${'x'.repeat(60_000)}": 1}`).length < 400);
  });
});

describe('the schema of a tool', () => {
  const rejected = (parameters: unknown, expected: RegExp): void =>
    assert.throws(
      () => checkOf(parameters as JsonSchema),
      (error) => {
        assert.ok(error instanceof OrchdError && error.code === 'INVALID_PARAMS');
        assert.match(error.message, expected);
        return true;
      },
    );
  const property = (schema: unknown) => ({ type: 'object', properties: { a: schema } });

  test('that cannot be used is an error when the tool is registered', () => {
    rejected(5, /#? must be a schema/);
    rejected(undefined, /not JSON/);
    rejected({ type: 'string' }, /#\/type must be "object"/);
    rejected(property({ type: 'strin' }), /#\/properties\/a\/type: there is no type "strin"/);
    rejected(property({ type: 'string', pattern: '(' }), /regular expression/);
    rejected(property({ $ref: '#/$defs/none' }), /#\/properties\/a\/\$ref leads nowhere/);
    rejected(property({ $ref: 'https://example.com/schema' }), /\$ref leads nowhere/);
    rejected(property({ $ref: '#/constructor' }), /\$ref leads nowhere/);
    const cycle = (a: unknown) => ({ ...property({ $ref: '#/$defs/a' }), $defs: { a } });
    rejected(cycle({ $ref: '#/$defs/a' }), /refers to itself without end/);
    rejected(cycle({ allOf: [{ not: { $ref: '#/$defs/a' } }] }), /refers to itself without end/);
    rejected(property(null), /#\/properties\/a must be a schema/);
    rejected({ type: 'object', required: 'a' }, /required must be a list/);
    rejected(property({ type: 'number', minimum: '3' }), /minimum must be a number/);
    const cyclic: Record<string, unknown> = { type: 'object' };
    cyclic['properties'] = { a: cyclic };
    rejected(cyclic, /not JSON/);
  });

  test('may have references, unions and the types of typebox', () => {
    const check = checkOf({
      type: 'object',
      properties: { tree: { $ref: '#/$defs/tree' } },
      $defs: {
        tree: { type: 'object', properties: { left: { $ref: '#/$defs/tree' } }, additionalProperties: false },
      },
    });
    assert.ok(check('{"tree": {"left": {"left": {}}}}').ok);
    assert.ok(!check('{"tree": {"left": {"right": {}}}}').ok);
    const union = Type.Object({ at: Type.Union([Type.String(), Type.Null()]) });
    assert.ok(checkOf(union as unknown as JsonSchema)('{"at": null}').ok);
    assert.match(refusal('{"at": 1}', union as unknown as JsonSchema), /"at" must be/);
  });

  test('is copied: a later change of it changes no check', () => {
    const parameters = { type: 'object', required: ['a'] };
    const check = checkOf(parameters);
    parameters.required = [];
    assert.ok(!check('{}').ok);
  });
});
