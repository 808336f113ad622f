import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CommandToolConfig } from '../../config/agents.ts';
import { commandTool } from './command.ts';

const CONFIG: CommandToolConfig = { name: 'list', description: 'Lists.', argv: ['ls', '-l'] };
const WORKS = { sandbox: { works: true }, data: '/srv/orchd/data' } as const;
const FAILS = { sandbox: { works: false, why: 'no' }, data: '/srv/orchd/data' } as const;

describe('a command of the configuration', () => {
  test('has an effect, a minute and 64 KiB unless it says otherwise', () => {
    const { effect, timeoutMs, maxOutputBytes } = commandTool(CONFIG, WORKS);
    assert.deepEqual([effect, timeoutMs, maxOutputBytes], ['effectful', 60_000, 65_536]);
    const other = commandTool({ ...CONFIG, effect: 'pure', timeout_ms: 5, max_output_bytes: 6 }, WORKS);
    assert.deepEqual([other.effect, other.timeoutMs, other.maxOutputBytes], ['pure', 5, 6]);
  });

  test('is run inside of bubblewrap, in its folder, without the network unless it may use it', () => {
    const { argv, cwd, env } = commandTool(CONFIG, WORKS).commandOf({}, '/work');
    const [program, ...options] = argv.slice(0, 5);
    assert.deepEqual(
      [program, options],
      ['bwrap', ['--unshare-all', '--die-with-parent', '--cap-drop', 'ALL']],
    );
    assert.deepEqual(argv.slice(argv.indexOf('--bind')), [
      ...['--bind', '/work', '/work', '--chdir', '/work', '--', 'ls', '-l'],
    ]);
    assert.ok(!argv.includes('--share-net') && !argv.includes('/etc/resolv.conf'));
    assert.deepEqual([cwd, env], ['/work', { HOME: '/work', TMPDIR: '/tmp' }]);
    const open = commandTool({ ...CONFIG, folder: '/srv/x', read: ['/opt/y'], network: true }, WORKS);
    const words = open.commandOf({}, '/work').argv.join(' ');
    assert.match(
      words,
      /--share-net .*--ro-bind \/opt\/y \/opt\/y --bind \/srv\/x \/srv\/x --chdir \/srv\/x -- ls/,
    );
    assert.equal(open.needsApproval, false);
  });

  test('must be allowed where bubblewrap does not work, and is then run as it is', () => {
    const { needsApproval, commandOf } = commandTool(CONFIG, FAILS);
    assert.equal(needsApproval, true);
    assert.deepEqual(commandOf({}, '/work').argv, ['ls', '-l']);
  });

  test('sees no folder that has the data of orchd in it, or is a part of it', () => {
    for (const folder of [
      '/srv/orchd/data',
      '/srv/orchd/data/..x',
      '/srv/orchd/data/x',
      '/srv/orchd',
      '/',
      '/srv/orchd/../orchd/data',
    ])
      for (const more of [{ folder }, { read: [folder] }])
        assert.throws(() => commandTool({ ...CONFIG, ...more }, WORKS), { code: 'INVALID_PARAMS' }, folder);
    commandTool({ ...CONFIG, folder: '/srv/orchd/database' }, WORKS);
    commandTool({ ...CONFIG, folder: '/srv/orchd/..data' }, WORKS);
  });
});
