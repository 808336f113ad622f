/** The official MCP client drives `orchd mcp` as a real process, and /mcp of a real server, which is killed in between. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { TOOLS } from '../../src/wire/mcp/server.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';
import { type Reply, type Site, site } from './agent-site.ts';
import { MAIN } from './cli-process.ts';

const VERSIONS = { '2026-07-28': { pin: '2026-07-28' }, '2025-11-25': 'legacy' } as const;
type Version = keyof typeof VERSIONS;
type Transport = 'stdio' | 'http';

interface Connected {
  readonly client: Client;
  readonly stderr: () => string;
}

async function connect(
  t: TestContext,
  { transport, version, url, token }: { transport: Transport; version: Version; url: string; token?: string },
): Promise<Connected> {
  const client = new Client(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode: VERSIONS[version] } },
  );
  t.after(() => client.close());
  let said = '';
  if (transport === 'http') {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }),
    );
  } else {
    const stdio = new StdioClientTransport({
      command: process.execPath,
      args: [MAIN, 'mcp', '--url', url],
      env: { PATH: process.env['PATH'] ?? '', ...(token !== undefined && { ORCHD_TOKEN: token }) },
      stderr: 'pipe',
    });
    stdio.stderr?.on('data', (piece) => {
      said += piece;
    });
    await client.connect(stdio);
  }
  assert.equal(client.getNegotiatedProtocolVersion(), version);
  return { client, stderr: () => said };
}

type Shown = Record<string, unknown> & { readonly error?: { readonly code: string; readonly next: string } };

async function call(
  client: Client,
  name: string,
  args: Record<string, unknown>,
  onprogress?: (message: string) => void,
): Promise<Shown> {
  const { structuredContent, content } = await client.callTool(
    { name, arguments: args },
    onprogress && { onprogress: ({ message }) => onprogress(message ?? '') },
  );
  const [text] = content as { text: string }[];
  assert.deepEqual(JSON.parse(text!.text), structuredContent, 'the text says the same');
  return structuredContent as Shown;
}

const dataOf = (shown: Shown, field: string): unknown =>
  (shown[field] as { data?: unknown } | undefined)?.data;

/** A brain whose model says one word of the answer to "hold", and waits. */
async function holdingSite(t: TestContext): Promise<Site & { held: Promise<Reply> }> {
  const held = Promise.withResolvers<Reply>();
  const made = await site(t, (turn, reply, { messages }) => {
    if (messages.some(({ content }) => content === 'hold')) held.resolve(reply.say('Once '));
    else if (turn === 0) reply.call('current_time', {});
    else reply.say('It is late.').end();
  });
  return { ...made, held: held.promise };
}

for (const transport of ['stdio', 'http'] as const)
  for (const version of Object.keys(VERSIONS) as Version[])
    test(`over ${transport}, in version ${version}, an assistant hands in work and collects it after the brain was killed`, {
      timeout: 120_000,
    }, async (t) => {
      const { brain, again, held } = await holdingSite(t);
      const { client, stderr } = await connect(t, { transport, version, url: brain.url });
      const { tools } = await client.listTools();
      assert.deepEqual(
        tools.map(({ name }) => name),
        TOOLS.map(({ name }) => name),
      );

      const job = { prompt: 'hold', model: 'm', job_id: 'story' };
      assert.equal((await call(client, 'submit_job', job))['job_id'], 'story');
      await held;
      const early = await call(client, 'wait_for_job', { job_id: 'story', wait_ms: 0 });
      assert.equal(early['ended'], false);
      assert.match(String(early['next']), /wait_for_job again/);

      await again();
      assert.equal(
        (await call(client, 'submit_job', job))['duplicate_of'],
        'job_id',
        'asked twice, done once',
      );
      const progress = Promise.withResolvers<string>();
      const waiting = call(client, 'wait_for_job', { job_id: 'story', wait_ms: 50_000 }, progress.resolve);
      assert.notEqual(await progress.promise, '');
      (await held).say('upon a time.').end();
      const ended = await waiting;
      assert.equal(ended['state'], 'succeeded');
      assert.match(JSON.stringify(dataOf(ended, 'result')), /Once upon a time\./);
      assert.deepEqual(await call(client, 'get_job', { job_id: 'story' }), ended);

      const waits = { type: 'nobody', wait_for_backend: true, job_id: 'unwanted' };
      await call(client, 'submit_job', waits);
      assert.equal((await call(client, 'cancel_job', { job_id: 'unwanted' }))['state'], 'cancelled');

      const { agents } = (await call(client, 'list_agents', {})) as unknown as { agents: { name: string }[] };
      assert.ok(agents.some(({ name }) => name === 'helper'));
      const run = { agent: 'helper', input: 'What time is it?', run_id: 'asked' };
      await call(client, 'start_run', run);
      const replied = await call(client, 'wait_for_run', { run_id: 'asked' });
      assert.deepEqual([replied['state'], dataOf(replied, 'reply')], ['completed', 'It is late.']);

      const { jobs } = (await call(client, 'list_jobs', { limit: 100 })) as unknown as { jobs: Shown[] };
      const listed = new Set(jobs.map(({ job_id: id }) => id));
      assert.ok(['story', 'unwanted', 'asked'].every((id) => listed.has(id)));
      assert.equal(stderr(), '');
    });

test('a wait goes on while the brain is killed and started again; while it is down the other tools say so', {
  timeout: 120_000,
}, async (t) => {
  const { brain, again, held } = await holdingSite(t);
  const { client } = await connect(t, { transport: 'stdio', version: '2026-07-28', url: brain.url });
  await call(client, 'submit_job', { prompt: 'hold', model: 'm', job_id: 'story', priority: 'interactive' });
  await held;
  const lost = Promise.withResolvers<void>();
  const waiting = call(client, 'wait_for_job', { job_id: 'story', wait_ms: 50_000 }, (message) => {
    if (message === 'orchd cannot be reached') lost.resolve();
  });
  await brain.kill();
  await lost.promise;
  const { error } = await call(client, 'get_job', { job_id: 'story' });
  assert.equal(error?.code, 'UNREACHABLE');
  assert.match(error?.next ?? '', /orchd up/);
  const refused = (await call(client, 'submit_job', { prompt: 'x', model: 'm' })).error as unknown as {
    ask_again_with: { job_id: string };
  };
  assert.match(refused.ask_again_with.job_id, /^[0-9a-f]{32}$/, 'with this id it can be asked again');
  await again();
  (await held).say('upon a time.').end();
  assert.match(JSON.stringify(dataOf(await waiting, 'result')), /Once upon a time\./);
});

test('an assistant has the rights of its token, and its token is told to nobody', async (t) => {
  const { token, entry } = makeToken(new SeededRandom(1), 0, 'reader', 'read');
  const brain = await httpBrain({ tokens: [entry] });
  t.after(() => brain.stop());
  for (const transport of ['stdio', 'http'] as const) {
    const asked = { transport, version: '2025-11-25', url: brain.url } as const;
    const { client, stderr } = await connect(t, { ...asked, token });
    assert.deepEqual(await call(client, 'list_jobs', {}), { jobs: [] });
    const { error } = await call(client, 'submit_job', { prompt: 'x' });
    assert.equal(error?.code, 'FORBIDDEN');
    for (const text of [stderr(), JSON.stringify(error), brain.logged.join('')])
      assert.ok(!text.includes(token));
  }
  const wrong = `orchd_${'0'.repeat(8)}_${'0'.repeat(64)}`;
  await assert.rejects(
    connect(t, { transport: 'http', version: '2025-11-25', url: brain.url, token: wrong }),
    /UNAUTHORIZED/,
  );
  const { client, stderr } = await connect(t, {
    transport: 'stdio',
    version: '2025-11-25',
    url: brain.url,
    token: wrong,
  });
  const { error } = await call(client, 'list_jobs', {});
  assert.equal(error?.code, 'UNAUTHORIZED');
  assert.ok(!`${stderr()}${JSON.stringify(error)}${brain.logged.join('')}`.includes(wrong));
});
