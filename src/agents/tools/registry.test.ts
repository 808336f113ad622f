import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { definitionsHash, ToolSet } from './registry.ts';
import type { Tool } from './tool.ts';

const sample = (name: string, more: Partial<Tool> = {}): Tool => ({
  name,
  description: `does ${name}`,
  parameters: { type: 'object', properties: { a: { type: 'string' } } },
  effect: 'pure',
  run: () => 'done',
  ...more,
});

const invalid = (expected: RegExp) => ({ code: 'INVALID_PARAMS', message: expected });

describe('a set of tools', () => {
  test('finds tools by name, with the check of their arguments', () => {
    const tools = new ToolSet([sample('one'), sample('two')]);
    assert.deepEqual(tools.names, ['one', 'two']);
    assert.equal(tools.get('two')?.tool.name, 'two');
    assert.ok(tools.get('two')?.check('{"a": "b"}').ok);
    assert.ok(!tools.get('two')?.check('{"a": 1}').ok);
    for (const name of ['three', '__proto__', 'constructor']) assert.equal(tools.get(name), undefined);
  });

  test('refuses bad and double names', () => {
    for (const name of ['', 'a b', 'a.b', 'ä', 'a\n', 'x'.repeat(65), undefined as unknown as string])
      assert.throws(() => new ToolSet([sample(name)]), invalid(/its name must have/));
    assert.throws(() => new ToolSet([sample('a'), sample('a')]), invalid(/two tools with the name "a"/));
  });

  test('refuses tools that could not be called', () => {
    const refused = (more: object, expected: RegExp): void =>
      assert.throws(() => new ToolSet([sample('a', more)]), invalid(expected));
    refused({ effect: 'harmless' }, /effect of "a"/);
    refused({ description: '' }, /description of "a"/);
    refused({ description: 'x'.repeat(4001) }, /description of "a"/);
    refused({ run: 'rm' }, /no function "run"/);
    refused({ timeoutMs: 0 }, /timeoutMs of "a"/);
    refused({ timeoutMs: Number.NaN }, /timeoutMs of "a"/);
    refused({ maxOutputBytes: '64' }, /maxOutputBytes of "a"/);
    refused({ parameters: { type: 'object', properties: { a: { type: 'text' } } } }, /no type "text"/);
  });

  test('a refused tool leaves nothing behind', () => {
    const tools = new ToolSet();
    assert.throws(() => tools.add(sample('a', { parameters: { type: 'array' } })));
    tools.add(sample('a'));
    assert.deepEqual(tools.names, ['a']);
  });
});

describe('definitions', () => {
  const tools = new ToolSet([sample('read'), sample('write')]);

  test('have the form of OpenAI, in the order of the names', () => {
    assert.deepEqual(tools.definitions(['write']), [
      {
        type: 'function',
        function: {
          name: 'write',
          description: 'does write',
          parameters: { type: 'object', properties: { a: { type: 'string' } } },
        },
      },
    ]);
    assert.deepEqual(
      tools.definitions(['write', 'read']).map((each) => each.function.name),
      ['write', 'read'],
    );
    assert.equal(tools.definitions().length, 2);
  });

  test('of unknown or repeated names are refused', () => {
    assert.throws(() => tools.definitions(['raed']), invalid(/no tool "raed"; did you mean "read"\?/));
    assert.throws(() => tools.definitions(['read', 'read']), invalid(/named twice/));
  });

  test('cannot be changed, neither through them nor through the schema that was registered', () => {
    const parameters = { type: 'object', required: ['a'] };
    const own = new ToolSet([sample('a', { parameters })]);
    parameters.required.push('b');
    const [definition] = own.definitions();
    assert.deepEqual(definition?.function.parameters['required'], ['a']);
    assert.throws(() => (definition!.function.parameters['required'] as string[]).push('b'), TypeError);
  });

  test('have a hash that only their content changes', () => {
    const hash = definitionsHash(tools.definitions());
    assert.match(hash, /^[0-9a-f]{64}$/);
    assert.equal(definitionsHash(tools.definitions(['write', 'read'])), hash);
    const { name, run, ...rest } = sample('write');
    assert.equal(definitionsHash(new ToolSet([sample('read'), { run, ...rest, name }]).definitions()), hash);
    assert.notEqual(definitionsHash(tools.definitions(['read'])), hash);
    const other = new ToolSet([sample('read'), sample('write', { description: 'writes' })]);
    assert.notEqual(definitionsHash(other.definitions()), hash);
  });
});
