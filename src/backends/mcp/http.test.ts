/** Servers over HTTP: keys, redirects, and tasks that survive the brain. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { McpHttpServer } from '../../../test/fakes/mcp-http-server.ts';
import {
  errorIn,
  type McpKit,
  MemoryRecords,
  mcpKit,
  resultIn,
  until,
  WHO,
} from '../../../test/fakes/mcp-kit.ts';

const schema = { type: 'object' };

async function served(t: TestContext, tools: object[]): Promise<McpHttpServer> {
  const server = await new McpHttpServer().start();
  server.tools.push(...tools);
  t.after(() => server.stop());
  return server;
}

/** `command: undefined` takes the place of the fake's own command. */
const kitOf = (t: TestContext, { url }: McpHttpServer, more: object = {}): Promise<McpKit> =>
  mcpKit(t, { config: { command: undefined, url } as never, ...more });

test('the key is sent to the server, and to no other address that the server leads to', async (t) => {
  process.env['MCP_TEST_KEY'] = 'key-1';
  t.after(() => {
    delete process.env['MCP_TEST_KEY'];
  });
  const other = await served(t, []);
  const server = await served(t, [{ name: 'work', inputSchema: schema }]);
  server.onCall = ({ end }) => end({ content: [{ type: 'text', text: 'done' }] });
  const config = { command: undefined, url: server.url, key_env: 'MCP_TEST_KEY', connect_timeout_ms: 1000 };
  const kit = await mcpKit(t, { config: config as never });
  assert.equal(resultIn(await kit.call('work')).text, 'done');
  assert.ok(server.asked.every(({ key }) => key === 'Bearer key-1'));
  server.redirect = other.url;
  const end = await kit.call('work');
  assert.notEqual(end.is === 'ended' && end.outcome.ok, true);
  assert.deepEqual(other.asked, []);
});

test('a call whose server is gone is told so, and another one finds it again', async (t) => {
  const server = await served(t, [{ name: 'work', inputSchema: schema }]);
  server.onCall = ({ refuse }) => refuse(404);
  const kit = await kitOf(t, server);
  assert.equal(errorIn(await kit.call('work')), 'MCP_UNAVAILABLE');
  server.onCall = ({ end }) => end({ content: [{ type: 'text', text: 'back' }] });
  assert.equal(resultIn(await kit.call('work')).text, 'back');
});

const TASK = { name: 'long', inputSchema: schema, execution: { taskSupport: 'optional' } };

test('a call that the server runs as a task is found again by a new brain, and not made again', async (t) => {
  const server = await served(t, [TASK]);
  const records = new MemoryRecords();
  const first = await kitOf(t, server, { records });
  const token = await first.begin('long');
  await until(() => records.tasks.has(token));
  // The first brain is gone; what the task does goes on.
  await first.backend.stop();
  const second = await kitOf(t, server, { records });
  const { known } = await second.backend.inspect([token], WHO);
  assert.equal(known.get(token)?.is, 'running');
  server.tasks.set('task-1', {
    status: 'completed',
    result: { content: [{ type: 'text', text: 'finished' }] },
  });
  assert.equal(resultIn(await second.end(token)).text, 'finished');
  assert.equal(server.asked.filter(({ method }) => method === 'tools/call').length, 1);
  await second.backend.ack(token, WHO);
  assert.equal(records.tasks.size, 0);
});

test('a task that the server has forgotten has an unknown outcome; one that is killed is cancelled there', async (t) => {
  const server = await served(t, [TASK]);
  const kit = await kitOf(t, server);
  const token = await kit.begin('long');
  await until(() => kit.records.tasks.has(token));
  await kit.backend.kill(token, WHO);
  assert.deepEqual(await kit.end(token), { is: 'ended', outcome: { ok: 'cancelled' } });
  await until(() => server.tasks.get('task-1')?.status === 'cancelled');
  const lost = await kit.begin('long');
  await until(() => kit.records.tasks.has(lost));
  server.tasks.clear();
  assert.equal((await kit.end(lost)).is, 'forgotten');
});
