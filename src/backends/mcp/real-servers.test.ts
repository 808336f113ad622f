/** Servers that others wrote, as real processes: the reference servers of the protocol. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { httpBrain } from '../../../test/fakes/http-brain.ts';
import { FAKE_SERVER, mcpKit, resultIn, until } from '../../../test/fakes/mcp-kit.ts';
import { MAIN } from '../../../test/flow/cli-process.ts';
import { processesWith } from '../../kit/process/identity.ts';

const PACKAGES = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol');
const mainOf = (name: string): string => join(PACKAGES, name, 'dist/index.js');

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-mcp-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

test('server-filesystem reads and writes in the folder that it was given, and nowhere else', async (t) => {
  const folder = folderOf(t);
  writeFileSync(join(folder, 'note.txt'), 'a note');
  const command = [process.execPath, mainOf('server-filesystem'), folder];
  const kit = await mcpKit(t, {
    config: { command, folder, trust_hints: true, effects: { edit_file: 'effectful' } },
  });
  const read = (path: string) => kit.call('read_text_file', { path });
  assert.equal(resultIn(await read(join(folder, 'note.txt'))).text, 'a note');
  const outside = resultIn(await read('/etc/passwd'));
  assert.equal(outside.ok, false);
  assert.match(outside.text, /denied|outside/i);
  const path = join(folder, 'new.txt');
  assert.equal(resultIn(await kit.call('write_file', { path, content: 'written' })).ok, true);
  assert.equal(readFileSync(path, 'utf8'), 'written');
  assert.equal(kit.servers.find('fake__read_text_file')?.effect, 'pure', 'its hint is trusted');
  assert.equal(kit.servers.find('fake__edit_file')?.effect, 'effectful');
});

test('server-everything answers; killed in mid-call, the outcome is unknown and the next call is answered', async (t) => {
  const kit = await mcpKit(t, {
    config: { command: [process.execPath, mainOf('server-everything'), 'stdio'] },
  });
  assert.match(resultIn(await kit.call('echo', { message: 'hello' })).text, /hello/);
  const progress = Promise.withResolvers<void>();
  const token = await kit.begin('trigger-long-running-operation', { duration: 60, steps: 600 });
  const ended = kit.backend.follow(token, 0, ({ type }) => type === 'token' && progress.resolve(), {
    owner: 'tests',
    epoch: 1,
  });
  await progress.promise;
  const [pid] = processesWith('HOME', join(kit.folder, 'mcp', 'fake')).filter((each) =>
    readFileSync(`/proc/${each}/cmdline`, 'utf8').includes('server-everything'),
  );
  process.kill(pid as number, 'SIGKILL');
  const end = await ended;
  assert.equal(end.is, 'forgotten', JSON.stringify(end));
  assert.match(resultIn(await kit.call('echo', { message: 'again' })).text, /again/);
});

test('the processes of a server end with the brain, also where the brain is killed', async (t) => {
  const folder = folderOf(t);
  const kit = join(import.meta.dirname, '../../../test/fakes/mcp-kit.ts');
  const code = `
    import { mcpKit } from ${JSON.stringify(kit)};
    const kit = await mcpKit({ after: () => undefined }, { flags: ['--stay'], folder: ${JSON.stringify(folder)} });
    await kit.call('echo', { text: 'x' });
    console.log('ready');
  `;
  const brain = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => brain.kill('SIGKILL'));
  await once(brain.stdout, 'data');
  const { pid } = JSON.parse(readFileSync(join(folder, 'started'), 'utf8').trim());
  assert.ok(existsSync(`/proc/${pid}`), FAKE_SERVER);
  brain.kill('SIGKILL');
  await until(() => !existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(statusOf(pid)));
});

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return 'State: Z';
  }
}

for (const transport of ['stdio', 'http'])
  test(`the server of another orchd is used over ${transport}, in the current protocol`, async (t) => {
    const brain = await httpBrain({ config: 'agents: [{name: clerk, model: m}]' });
    t.after(() => brain.stop());
    const config =
      transport === 'http'
        ? { command: undefined, url: `${brain.url}/mcp` }
        : { command: [process.execPath, MAIN, 'mcp', '--url', brain.url] };
    const kit = await mcpKit(t, { config: config as never });
    const said = resultIn(await kit.call('list_agents'));
    assert.equal(said.ok, true, said.text);
    assert.match(said.text, /clerk/);
    const [server] = await kit.servers.view();
    assert.equal(server?.protocol, '2026-07-28');
  });
