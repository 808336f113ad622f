/** Servers that misbehave: real processes, and what becomes of the calls that they were given. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { errorIn, type McpKit, mcpKit, resultIn, until, WHO } from '../../../test/fakes/mcp-kit.ts';

const stateOf = ({ servers }: McpKit, name: string) => {
  const tool = servers.find(name);
  return tool && servers.stateOf(tool);
};

const SHORT = { timeout_ms: 400 };
/** What a server is started with, by the version of the protocol that it speaks. */
const VERSIONS = { '2026-07-28': ['--current'], '2025-11-25': [] } as const;

for (const [version, flags] of Object.entries(VERSIONS))
  describe(`a server of the protocol ${version}`, () => {
    test('a server that hangs at its first request is given up, and calls are told so with a code', async (t) => {
      const kit = await mcpKit(t, {
        flags: [...flags, '--hang-initialize'],
        config: { connect_timeout_ms: 700 },
      });
      assert.equal(errorIn(await kit.call('echo')), 'MCP_UNAVAILABLE');
      assert.deepEqual(kit.lines('calls'), []);
      const [server] = await kit.servers.view();
      assert.equal(server?.connected, false);
      assert.match(server?.last_error ?? '', /did not answer|timed out/i);
    });

    test('a call that hangs ends at its timeout, and the server is told to give it up', async (t) => {
      const kit = await mcpKit(t, { flags, config: SHORT });
      assert.equal(resultIn(await kit.call('hang')).why, 'timeout');
      await until(() => kit.lines('notified').includes('notifications/cancelled'));
    });

    test('notifications of progress extend nothing', async (t) => {
      const kit = await mcpKit(t, { flags, config: SHORT });
      assert.equal(resultIn(await kit.call('progress')).why, 'timeout');
    });

    test('a kill cancels the call at the server', async (t) => {
      const kit = await mcpKit(t, { flags });
      const token = await kit.begin('hang');
      await until(() => kit.lines('calls').length > 0);
      assert.deepEqual(await kit.backend.kill(token, WHO), { is: 'stopping' });
      assert.deepEqual(await kit.end(token), { is: 'ended', outcome: { ok: 'cancelled' } });
      await until(() => kit.lines('notified').includes('notifications/cancelled'));
    });

    test('where a server dies in mid-call the outcome is unknown, and the next call finds a new server', async (t) => {
      const kit = await mcpKit(t, { flags });
      const end = await kit.call('die');
      assert.equal(end.is, 'forgotten');
      assert.match((end as { why: string }).why, /ended with status 3/);
      assert.equal(resultIn(await kit.call('echo', { text: 'again' })).text, 'again');
      assert.deepEqual(kit.lines('calls'), ['die', 'echo']);
      assert.equal(kit.lines('started').length, 2);
    });

    for (const tool of ['flood', 'huge'])
      test(`a server that sends without end (${tool}) is cut off, and started anew`, async (t) => {
        const kit = await mcpKit(t, { flags, config: { max_message_bytes: 2_000_000 } });
        const end = await kit.call(tool);
        assert.equal(end.is, 'forgotten');
        assert.match((end as { why: string }).why, /too much|more than 2000000 bytes/);
        assert.equal(resultIn(await kit.call('echo', { text: 'alive' })).text, 'alive');
      });

    test('is spoken to in that version', async (t) => {
      const kit = await mcpKit(t, { flags });
      await kit.call('echo');
      const [server] = await kit.servers.view();
      assert.equal(server?.protocol, version);
    });

    test('lines that are no messages are ignored', async (t) => {
      const kit = await mcpKit(t, { flags: [...flags, '--garbage'] });
      assert.equal(resultIn(await kit.call('echo', { text: 'fine' })).text, 'fine');
    });

    test('of two answers to one call the first counts; an answer to nothing is none', async (t) => {
      const kit = await mcpKit(t, { flags, config: SHORT });
      assert.equal(resultIn(await kit.call('twice')).text, 'first');
      assert.equal(resultIn(await kit.call('other_id')).why, 'timeout');
      assert.equal(resultIn(await kit.call('echo', { text: 'next' })).text, 'next');
    });

    test('a server that asks for roots learns of its own folder alone, and anything else it asks for is refused', async (t) => {
      const kit = await mcpKit(t, { flags });
      const { roots } = JSON.parse(resultIn(await kit.call('roots')).text);
      assert.deepEqual(
        roots.map(({ uri }: { uri: string }) => uri),
        [`file://${join(kit.folder, 'mcp', 'fake')}`],
      );
      // The current protocol asks in the answer to the call, which has failed then.
      const asked = await kit.call('sample');
      if (version === '2026-07-28') assert.equal(errorIn(asked), 'MCP_PROTOCOL');
      else assert.match(resultIn(asked).text, /-32601/);
      assert.equal(resultIn(await kit.call('read')).text, 'read');
    });

    test('a server has no more of our environment than it needs', async (t) => {
      process.env['MCP_TEST_SECRET'] = 'secret';
      process.env['MCP_TEST_PASSED'] = 'passed';
      t.after(() => {
        delete process.env['MCP_TEST_SECRET'];
        delete process.env['MCP_TEST_PASSED'];
      });
      const kit = await mcpKit(t, { flags, config: { env: ['MCP_TEST_PASSED'] } });
      await kit.call('echo');
      const { env, cwd } = JSON.parse(kit.lines('started')[0] ?? '');
      const known = ['HOME', 'LANG', 'MCP_TEST_PASSED', 'ORCHD_MCP', 'PATH', 'TMPDIR'];
      assert.deepEqual(
        Object.keys(env).filter((name) => !known.includes(name)),
        [],
      );
      assert.equal(env.MCP_TEST_PASSED, 'passed');
      assert.equal(env.HOME, join(kit.folder, 'mcp', 'fake'));
      assert.equal(cwd, env.HOME);
    });

    test('pictures and resources are named, structured content is JSON, and long text is cut', async (t) => {
      const kit = await mcpKit(t, { flags, config: { max_output_bytes: 1000 } });
      const { text } = resultIn(await kit.call('pictures'));
      assert.match(
        text,
        /\[image image\/png, 6 bytes: not shown\]\n\[resource file:\/\/\/a\.txt\]\ninside\n/,
      );
      assert.match(
        text,
        /\[resource file:\/\/\/b\.bin x\/y, 6 bytes: not shown\]\n\[resource file:\/\/\/c c\]$/,
      );
      assert.equal(resultIn(await kit.call('structured')).text, '{"temperature":7}');
      const long = resultIn(await kit.call('long')).text;
      assert.match(long, /cut: the first 1000 of 1048576 bytes/);
    });

    test('errors of a tool are results for the model', async (t) => {
      const kit = await mcpKit(t, { flags });
      assert.deepEqual(resultIn(await kit.call('fails')), {
        ok: false,
        text: 'it cannot be done',
        why: 'failed',
        started: true,
      });
      assert.match(resultIn(await kit.call('errs')).text, /bad arguments/);
    });

    test('a definition that changes under the connection is not called until it is allowed', async (t) => {
      const kit = await mcpKit(t, { flags });
      assert.equal(resultIn(await kit.call('echo', { text: 'one' })).text, 'one');
      await kit.call('change');
      await until(() => stateOf(kit, 'fake__echo') === 'changed');
      assert.equal(errorIn(await kit.call('echo', { text: 'two' })), 'MCP_TOOL_CHANGED');
      assert.equal(resultIn(await kit.call('read')).text, 'read', 'the others are called');
      const [before] = await kit.servers.view();
      const changed = before?.tools.find(({ tool }) => tool === 'echo');
      assert.match(JSON.stringify(changed?.offered), /evil/);
      assert.doesNotMatch(JSON.stringify(kit.servers.find('fake__echo')?.definition), /evil/);
      const allow = (hash: string) => kit.servers.allow('fake', 'echo', hash, 'someone');
      await assert.rejects(allow('another'), { code: 'ILLEGAL_STATE' });
      await allow(changed?.offered?.hash ?? '');
      assert.equal(resultIn(await kit.call('echo', { text: 'three' })).text, 'three');
      assert.deepEqual(kit.lines('calls'), ['echo', 'change', 'read', 'echo']);
    });

    test('a definition that was changed while the server was down is not called, and the former one is called again', async (t) => {
      const kit = await mcpKit(t, { flags });
      await kit.call('change');
      await kit.call('die');
      assert.equal(errorIn(await kit.call('echo')), 'MCP_TOOL_CHANGED');
      rmSync(join(kit.folder, 'changed'));
      await kit.call('die');
      assert.equal(resultIn(await kit.call('echo', { text: 'back' })).text, 'back');
    });
  });

test('a server that ends at a request of newer clients is asked as older clients do', async (t) => {
  const kit = await mcpKit(t, { flags: ['--exit-on-discover'] });
  assert.equal(resultIn(await kit.call('echo', { text: 'old' })).text, 'old');
});

test('a server that cannot be started says why', async (t) => {
  const kit = await mcpKit(t, { config: { command: ['no-such-program'], connect_timeout_ms: 2000 } });
  assert.equal(errorIn(await kit.call('echo')), 'MCP_UNAVAILABLE');
  const [server] = await kit.servers.view();
  assert.match(server?.last_error ?? '', /no-such-program|127/);
});
