import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { CommandKit, hear, js, offerOf, run, sh, until, WHO } from '../../../../test/fakes/command-kit.ts';
import { folderName } from './layout.ts';

const HOSTILE = [
  '..:1',
  '../../outside:1',
  '/etc/passwd:1',
  '.',
  '',
  'a/b\\c:1',
  'nul\0nul:1',
  'new\nline:1',
  '%2e%2e%2f:1',
  'tenant~job:1',
  'ünï:1',
  `${'x'.repeat(5000)}:1`,
  `${'ß'.repeat(120)}:1`,
  '\ud800:1',
  '\udc00:1',
  '$(touch pwned):1',
  '__proto__',
];

describe('names', () => {
  test('a token never leaves the folder, and no two share one', () => {
    const names = ['brain', 'another'].flatMap((brain) => HOSTILE.map((token) => folderName(brain, token)));
    for (const name of names) {
      assert.match(name, /^[0-9a-f]{12}\.[th]-[a-z0-9._~%-]*$/);
      assert.ok(name.length <= 213);
    }
    assert.equal(new Set(names).size, 2 * HOSTILE.length);
  });

  test('tokens that differ only in case stay apart where file names do not', () => {
    assert.notEqual(folderName('b', 'Job:1').toLowerCase(), folderName('b', 'job:1').toLowerCase());
  });

  test('hostile tokens are executed, killed and inspected like any other', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('cat'));
    for (const [at, token] of HOSTILE.entries()) {
      if (at % 3 === 0) assert.equal((await run(backend, token, at)).text, String(at));
      else assert.equal((await backend.kill(token, WHO)).is, 'tombstoned');
    }
    assert.equal((await backend.inspect(HOSTILE, WHO)).known.size, Math.ceil(HOSTILE.length / 3));
    assert.deepEqual(fs.readdirSync(kit.root), ['executions']);
    assert.equal(fs.readdirSync(join(kit.folder, 'executions')).length, HOSTILE.length);
  });
});

describe('arguments', () => {
  test('are passed unchanged, without a shell', async (t) => {
    const kit = new CommandKit(t);
    const rest = ['$(touch pwned)', '; touch pwned', '`id`', '*', '', 'a b', '--eval', 'é\n"'];
    const script = 'process.stdout.write(JSON.stringify(process.argv.slice(1)))';
    const backend = kit.backend({ argv: [process.execPath, '-e', script, '--', ...rest] });
    const { text } = await run(backend, 'job:1');
    assert.deepEqual(JSON.parse(text), rest);
    assert.deepEqual(fs.readdirSync(kit.paths('job:1').work), []);
  });

  test('a program whose name is a command line is not found', async (t) => {
    const kit = new CommandKit(t);
    const { outcome } = await run(kit.backend({ argv: [`touch ${kit.ledger}; true`] }), 'job:1');
    assert.partialDeepStrictEqual(outcome, { ok: false, error: { code: 'WORKER_START_FAILED' } });
    assert.equal(fs.existsSync(kit.ledger), false);
  });

  test('that are invalid are refused when the backend is made', (t) => {
    const kit = new CommandKit(t);
    for (const argv of [[], [''], ['a\0b'], ['a', 7 as never], 'sh' as never]) {
      assert.throws(() => kit.backend({ argv }), { code: 'CONFIG_INVALID' });
    }
    assert.throws(() => kit.backend(sh('true'), { slots: 0 }), { code: 'CONFIG_INVALID' });
    // A shell would drop them.
    for (const name of ['my-var', 'a.b', '1st', ''])
      assert.throws(() => kit.backend(sh('true', { env: { [name]: 'x' } })), { code: 'CONFIG_INVALID' });
  });
});

describe('secrets', () => {
  test('the command, its wrapper and its keeper get only the listed variables of our environment', async (t) => {
    const kit = new CommandKit(t);
    process.env['ORCHD_TEST_SECRET'] = 'swordfish';
    process.env['NODE_OPTIONS'] = '--no-deprecation';
    t.after(() => {
      delete process.env['ORCHD_TEST_SECRET'];
      delete process.env['NODE_OPTIONS'];
    });
    // Those of the wrapper and the keeper too: a process of the same user can read them.
    const script = `
      const { readFileSync } = require('fs');
      const environ = (pid) => readFileSync('/proc/' + pid + '/environ', 'utf8');
      const keeperPid = readFileSync('/proc/' + process.ppid + '/stat', 'utf8').split(') ')[1].split(' ')[1];
      const [wrapper, keeper] = [environ(process.ppid), environ(keeperPid)];
      console.log(JSON.stringify({ own: process.env, wrapper, keeper }));`;
    const backend = kit.backend(js(script, { env: { API_KEY: 'configured' } }));
    await backend.offer(offerOf('job:1', { model: 'small' }));
    const { text } = await hear(backend, 'job:1');
    const { own, wrapper, keeper } = JSON.parse(text) as {
      own: Record<string, string>;
      wrapper: string;
      keeper: string;
    };
    const { API_KEY, JOB_ID, JOB_MODEL, JOB_EXECUTION, ...inherited } = own;
    assert.deepEqual([API_KEY, JOB_ID, JOB_MODEL], ['configured', 'job', 'small']);
    assert.equal(JOB_EXECUTION, `${backend.info.registry}/${folderName(WHO.owner, 'job:1')}`);
    for (const [name, value] of Object.entries(inherited)) {
      assert.ok(['PATH', 'HOME', 'LANG', 'TMPDIR'].includes(name), `${name} was handed on`);
      assert.equal(value, process.env[name]);
    }
    for (const environ of [wrapper, keeper])
      assert.ok(!environ.includes('swordfish') && !environ.includes('NODE_OPTIONS'));
    assert.ok(!keeper.includes('configured'));
  });

  test('the umask of a command is ours', async (t) => {
    const kit = new CommandKit(t);
    const { text } = await run(kit.backend(sh('umask')), 'job:1');
    assert.equal(Number.parseInt(text, 8), process.umask());
  });

  test('neither payload nor configured variables are on the disk, and only the owner may read the files', async (t) => {
    const kit = new CommandKit(t);
    const go = join(kit.root, 'go');
    const backend = kit.backend(
      sh(`until [ -e ${go} ]; do sleep 0.02; done`, { env: { API_KEY: 'configured-secret' } }),
    );
    await backend.offer(offerOf('job:1', {}, { prompt: 'payload-secret' }));
    await until(() => kit.wrapper('job:1'));
    for (const path of filesBelow(kit.folder)) {
      assert.equal(fs.statSync(path).mode & 0o077, 0, `${path} can be read by others`);
      assert.doesNotMatch(fs.readFileSync(path, 'utf8'), /-secret/);
    }
    fs.writeFileSync(go, '');
    await hear(backend, 'job:1');
  });
});

function filesBelow(folder: string): string[] {
  return fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
