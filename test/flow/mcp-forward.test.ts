/** /mcp of a node that does not lead: the leader answers, and what the caller may do is the same. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { orchd } from './cli-process.ts';
import { Cluster } from './cluster-kit.ts';

let server: OwnServer;
before(async () => {
  server = await ownMariaDb();
});
after(() => server.stop());

test('an assistant can use any node: it hands in work at one and collects it, with progress, in both versions', {
  timeout: 120_000,
}, async (t) => {
  const cluster = await Cluster.on(t, server);
  const tokenOf = async (role: string): Promise<string> => {
    const { out } = await orchd(['token', 'create', role, '--role', role, '--data', cluster.data, '--json']);
    return (JSON.parse(out) as { token: string }).token;
  };
  const [read, submit] = [await tokenOf('read'), await tokenOf('submit')];
  cluster.headers = { authorization: `Bearer ${read}` };
  cluster.hold();
  const leader = await cluster.start('a');
  await cluster.leads(leader);
  const other = await cluster.start('b');
  await cluster.until(async () => (await cluster.leaderOf(other)).leader === 'a');
  const connected = async (token: string, mode: 'legacy' | { pin: string }): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${other.url}/mcp`), { requestInit }));
    t.after(() => client.close());
    return client;
  };
  for (const mode of ['legacy', { pin: '2026-07-28' }] as const) {
    const client = await connected(submit, mode);
    const job = { type: 'work', payload: 1, job_id: mode === 'legacy' ? 'before' : 'now' };
    const { tools } = await client.listTools();
    assert.ok(!tools.some(({ name }) => name === 'answer_approval'), 'its role is that of the token');
    await client.callTool({ name: 'submit_job', arguments: job });
    cluster.hold();
    const told = Promise.withResolvers<void>();
    const waiting = client.callTool(
      { name: 'wait_for_job', arguments: { job_id: job.job_id, wait_ms: 50_000 } },
      { onprogress: () => told.resolve() },
    );
    await told.promise;
    cluster.letGo();
    const { structuredContent } = await waiting;
    assert.equal((structuredContent as { state: string }).state, 'succeeded');
    const reader = await connected(read, mode);
    const refused = await reader.callTool({ name: 'cancel_job', arguments: { job_id: job.job_id } });
    assert.match(JSON.stringify(refused), /FORBIDDEN/);
  }
});
