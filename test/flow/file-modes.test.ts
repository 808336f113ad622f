/** Other users of the machine read nothing of what orchd keeps, whatever the umask is and whatever was there before. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { isOwnName } from '../../src/app/data-folder.ts';
import { orchd, type Running, start } from './cli-process.ts';

const root = fs.mkdtempSync(join(tmpdir(), 'orchd-modes-'));
const running = new Set<Running>();

after(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all([...running].map(({ ended }) => ended));
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});

const config = join(root, 'config.yaml');
const command = { argv: ['/bin/sh', '-c', 'cat; echo done'] };
fs.writeFileSync(
  config,
  JSON.stringify({
    orchestrator: { state: { checkpoint_interval: 1 } },
    backends: { commands: [{ name: 'shell', slots: 2, types: { shell: command } }] },
  }),
);

const withUmask = (umask: string): readonly string[] => ['/bin/sh', '-c', `umask ${umask}; exec "$@"`, 'sh'];

interface Entry {
  readonly path: string;
  readonly isFolder: boolean;
  readonly mode: string;
}

/** Everything below a folder, without what a command has written into its own working folder. */
function entriesOf(folder: string): Entry[] {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    // A temporary file may be renamed while the folder is read.
    const stats = fs.lstatSync(path, { throwIfNoEntry: false });
    if (!stats) return [];
    const own = { path, isFolder: entry.isDirectory(), mode: (stats.mode & 0o777).toString(8) };
    return entry.isDirectory() && entry.name !== 'work' ? [own, ...entriesOf(path)] : [own];
  });
}

const openOnes = (folder: string): string[] =>
  entriesOf(folder)
    .filter(({ isFolder, mode }) => mode !== (isFolder ? '700' : '600'))
    .map(({ path, mode }) => `${mode} ${path.slice(folder.length + 1)}`);

/** Starts a brain with a pool of its own, runs jobs on both, and looks at the folder while all of it runs. */
async function runJobs(data: string, umask: string, token: string): Promise<void> {
  const within = withUmask(umask);
  const words = ['up', '--port', '0', '--data', data, '--config', config, '--model', 'demo:tiny'];
  const server = start(words, { within });
  running.add(server);
  const url = /listens on (\S+)/.exec(await server.saw('err', /press Ctrl-C to stop/))![1]!;
  const env = { ORCHD_TOKEN: token };
  const payload = JSON.stringify({ text: 'x'.repeat(20_000) });
  for (const job of [
    ['--type', 'shell', '--payload', payload],
    ['--model', 'demo:tiny', 'hello'],
  ]) {
    const { code, err } = await orchd(['submit', '--follow', ...job, '--url', url], { env });
    assert.equal(code, 0, err);
  }
  assert.deepEqual(openOnes(data), [], `while it runs, under umask ${umask}`);
  const names = entriesOf(data).map(({ path }) => path.slice(data.length + 1));
  for (const name of ['lock', 'history.sqlite', 'history.sqlite-wal', 'history.sqlite-shm', 'tokens.json'])
    assert.ok(names.includes(name), name);
  for (const part of [/^log\/.*\.log$/, /^blobs\/.*\.blob$/, /^executions\/.*stdout$/, /^pool\/logs\/./])
    assert.ok(
      names.some((name) => part.test(name)),
      String(part),
    );
  for (const name of fs.readdirSync(data)) assert.ok(isOwnName(name), `${name} is a name that orchd uses`);
  server.child.kill('SIGTERM');
  await server.ended;
  assert.deepEqual(openOnes(data), [], `after the stop, under umask ${umask}`);
}

async function newToken(data: string, umask: string): Promise<string> {
  const { out, err } = await orchd(['token', 'create', 'ada', '--role', 'admin', '--data', data, '--json'], {
    within: withUmask(umask),
  });
  const { token } = JSON.parse(out) as { token?: string };
  assert.ok(token, out + err);
  return token;
}

for (const umask of ['0000', '0777']) {
  test(`under umask ${umask} all files are for their owner only, in a folder that was open to others too`, async () => {
    const data = join(root, `data-${umask}`);
    fs.mkdirSync(data);
    fs.chmodSync(data, 0o755);
    const token = await newToken(data, umask);
    await runJobs(data, umask, token);
    assert.equal(fs.statSync(data).mode & 0o777, 0o700);
    // An older version, a backup or an administrator has opened all of it.
    for (const { path, isFolder } of entriesOf(data)) fs.chmodSync(path, isFolder ? 0o755 : 0o644);
    fs.chmodSync(data, 0o755);
    await runJobs(data, umask, token);
    assert.equal(fs.statSync(data).mode & 0o777, 0o700);
  });
}

test('a data folder with foreign files keeps its mode, those files keep theirs, and a warning says so', async () => {
  const data = join(root, 'shared');
  fs.mkdirSync(data);
  fs.writeFileSync(join(data, 'script.sh'), '');
  fs.chmodSync(join(data, 'script.sh'), 0o755);
  fs.chmodSync(data, 0o755);
  const server = start(['up', '--port', '0', '--data', data], { within: withUmask('0000') });
  running.add(server);
  await server.saw('err', /press Ctrl-C to stop/);
  await server.saw('out', /other users of this machine can list the data folder/);
  server.child.kill('SIGTERM');
  await server.ended;
  assert.equal(fs.statSync(data).mode & 0o777, 0o755);
  assert.deepEqual(openOnes(data), ['755 script.sh']);
});
