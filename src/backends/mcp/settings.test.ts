import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { McpServerConfig } from '../../config/mcp.ts';
import { effectOf, liveTool, modelName, namesIn } from './definition.ts';
import { mcpSettings } from './settings.ts';

const fieldOf = (...servers: McpServerConfig[]): string | undefined => {
  try {
    mcpSettings(servers, { KEY: 'k' });
    return undefined;
  } catch (error) {
    return (error as { details: { field: string } }).details.field;
  }
};

test('a server has a command or a url, a name of its own, and variables that are set', () => {
  const command = ['server'];
  assert.equal(
    fieldOf({ name: 'a', command, env: ['KEY'] }, { name: 'b', url: 'http://x/', key_env: 'KEY' }),
    undefined,
  );
  assert.equal(fieldOf({ name: 'a' }), 'mcp[0]');
  assert.equal(fieldOf({ name: 'a', command, url: 'http://x/' }), 'mcp[0].url');
  assert.equal(fieldOf({ name: 'a', command }, { name: 'a', command }), 'mcp[1].name');
  assert.equal(fieldOf({ name: 'a', command, env: ['MISSING'] }), 'mcp[0].env');
  assert.equal(fieldOf({ name: 'a', url: 'http://x/', folder: '.' }), 'mcp[0].folder');
  assert.equal(
    fieldOf({ name: 'a', command, restart_min_ms: 5, restart_max_ms: 1 }),
    'mcp[0].restart_max_ms',
  );
  assert.equal(fieldOf({ name: 'a', command, allow: ['x'], effects: { y: 'pure' } }), 'mcp[0].effects');
});

test('hints of a server count only where the configuration trusts them, and never over it', () => {
  const tool = { name: 't', annotations: { readOnlyHint: true } };
  assert.equal(effectOf({ effects: {}, trustHints: false }, tool), 'effectful');
  assert.equal(effectOf({ effects: {}, trustHints: true }, tool), 'pure');
  assert.equal(effectOf({ effects: { t: 'effectful' }, trustHints: true }, tool), 'effectful');
});

test('the hash is of the whole definition, whatever the order of its fields', () => {
  const tool = { name: 't', description: 'd', inputSchema: { type: 'object' }, annotations: { title: 'x' } };
  const hash = liveTool(tool)?.hash;
  const { name, ...rest } = tool;
  assert.equal(liveTool({ ...rest, name })?.hash, hash);
  for (const change of [
    { description: 'e' },
    { inputSchema: { type: 'object', x: 1 } },
    { annotations: {} },
    { _meta: 1 },
  ])
    assert.notEqual(liveTool({ ...tool, ...change })?.hash, hash, JSON.stringify(change));
});

test('a tool is named by its server and its own name, where a model can write that', () => {
  assert.equal(modelName('files', 'read__it'), 'files__read__it');
  assert.deepEqual(namesIn('files__read__it'), { server: 'files', tool: 'read__it' });
  assert.equal(modelName('files', 'read.it'), undefined);
  assert.equal(modelName('files', 'x'.repeat(64)), undefined);
  assert.equal(namesIn('read_file'), undefined);
});
