import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';
import { CommandKit } from '../../../../test/fakes/command-kit.ts';

/** Runs a supervisor on mocked timers and prints when it would have stopped its command. */
const SCRIPT = `
  import { readFileSync } from 'node:fs';
  import { mock } from 'node:test';
  import { Supervisor } from '${new URL('./supervisor.ts', import.meta.url)}';
  const paths = JSON.parse(process.argv[1]);
  mock.timers.enable({ apis: ['setTimeout'] });
  const spec = { argv: ['sleep', '60'], env: process.env, payload: '', timeoutMs: 2 ** 32 };
  const supervisor = new Supervisor(spec, paths);
  const stops = [];
  supervisor.stop = (why) => stops.push(why);
  supervisor.run();
  // At most one longest timer per tick: a timer that is set within a tick counts from the end of that tick.
  for (const ms of [2 ** 31 - 1, 2 ** 31 - 1, 2]) mock.timers.tick(ms);
  stops.push('the timeout is over');
  mock.timers.tick(10_000);
  console.log(JSON.stringify(stops));
  process.kill(JSON.parse(readFileSync(paths.child)).pid, 'SIGKILL');
  process.exit(0);
`;

test('a timeout longer than the longest timer stops the command neither at once nor early', (t) => {
  const paths = new CommandKit(t).paths('job:1');
  fs.mkdirSync(paths.work, { recursive: true });
  const words = ['--input-type=module', '--eval', SCRIPT, JSON.stringify(paths)];
  const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', timeout: 20_000 });
  assert.equal(stdout.trim(), '["the timeout is over","timeout"]', stderr);
});
