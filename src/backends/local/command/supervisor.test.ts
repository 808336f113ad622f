import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';
import { CommandKit } from '../../../../test/fakes/command-kit.ts';

/** A supervisor whose time passes as told, and which says when it would stop its command; it ends with its process. */
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
  // As far as a single timer goes at most: what is set within a tick counts from its end.
  for (const ms of [2 ** 31 - 1, 2 ** 31 - 1, 2]) mock.timers.tick(ms);
  stops.push('the timeout is over');
  mock.timers.tick(10_000);
  console.log(JSON.stringify(stops));
  process.kill(JSON.parse(readFileSync(paths.child)).pid, 'SIGKILL');
  process.exit(0);
`;

test('a time to stop that is longer than any timer comes neither at once nor early', (t) => {
  const paths = new CommandKit(t).paths('job:1');
  fs.mkdirSync(paths.work, { recursive: true });
  const words = ['--input-type=module', '--eval', SCRIPT, JSON.stringify(paths)];
  const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', timeout: 20_000 });
  assert.equal(stdout.trim(), '["the timeout is over","timeout"]', stderr);
});
