import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
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

/**
 * Runs a command that fails, and leaves a process behind that holds its output open; then the supervisor is told to stop,
 * by a kill order if \`argv[2]\` says so. Prints nothing: exit.json is the result.
 */
const FAILED_THEN_STOPPED = `
  import fs from 'node:fs';
  import { mock } from 'node:test';
  import { Supervisor } from '${new URL('./supervisor.ts', import.meta.url)}';
  const paths = JSON.parse(process.argv[1]);
  mock.timers.enable({ apis: ['setTimeout'] });
  const argv = ['sh', '-c', 'sleep 60 & exit ' + process.argv[3]];
  const supervisor = new Supervisor({ argv, env: process.env, payload: '', maxOutputBytes: 1000 }, paths);
  supervisor.run();
  const { pid } = JSON.parse(fs.readFileSync(paths.child));
  const looking = setInterval(() => {
    if (fs.existsSync('/proc/' + pid)) return;
    clearInterval(looking);
    setImmediate(() => {
      if (process.argv[2] === 'kill') fs.writeFileSync(paths.kill, '');
      supervisor.stop('ordered');
      for (const ms of [2000, 2000]) mock.timers.tick(ms);
    });
  }, 5);
`;

test('a command that failed just before its supervisor was told to stop by somebody else was told to stop too', (t) => {
  const whyOf = (order: 'kill' | 'none', code: number): string => {
    const paths = new CommandKit(t).paths('job:1');
    fs.mkdirSync(paths.work, { recursive: true });
    fs.writeFileSync(paths.owner, '{}');
    const words = ['--input-type=module', '--eval', FAILED_THEN_STOPPED];
    const { stderr } = spawnSync(process.execPath, [...words, JSON.stringify(paths), order, String(code)], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    assert.ok(fs.existsSync(paths.exit), stderr);
    return (JSON.parse(fs.readFileSync(paths.exit, 'utf8')) as { why: string }).why;
  };
  assert.equal(whyOf('none', 1), 'terminated');
  assert.equal(whyOf('none', 0), 'exit', 'it had done its work');
  assert.equal(whyOf('kill', 1), 'exit', 'it was to be stopped, and had failed before');
});

test('a supervisor starts nothing unless it has got all of its spec', (t) => {
  const kit = new CommandKit(t);
  for (const name of ['executions', 'staging']) fs.mkdirSync(`${kit.folder}/${name}`, { recursive: true });
  const payload = '"é\n"';
  const header = {
    folder: kit.folder,
    brain: 'brain',
    token: 'job:1',
    jobId: 'job',
    argv: ['sh', '-c', `cat >> ${kit.ledger}`],
    env: {},
    split: 'line',
    maxOutputBytes: 1000,
    offeredAt: Date.now(),
    payloadBytes: Buffer.byteLength(payload),
  };
  const script = fileURLToPath(new URL('./supervisor-main.ts', import.meta.url));
  const spec = Buffer.from(`${JSON.stringify(header)}\n${payload}`);
  const answerTo = (input: Buffer): string =>
    spawnSync(process.execPath, [script], { input, cwd: kit.root, encoding: 'utf8', timeout: 20_000 }).stdout;
  const cuts = [0, 1, spec.indexOf('\n'), spec.indexOf('\n') + 1, spec.length - 1];
  for (const cut of cuts) assert.equal(answerTo(spec.subarray(0, cut)), '', `cut at ${cut}`);
  assert.equal(answerTo(Buffer.concat([spec, Buffer.from('x')])), '', 'more than the payload');
  assert.deepEqual(fs.readdirSync(`${kit.folder}/executions`), []);
  assert.equal(answerTo(spec), '{"is":"accepted"}\n');
  assert.equal(fs.readFileSync(kit.ledger, 'utf8'), payload);
});
