import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { CommandKit, hear, kill, offerOf, run, sh, until, WHO } from '../../../../test/fakes/command-kit.ts';
import { identityOf, isAlive } from '../../../kit/process/identity.ts';
import type { CommandSpec, OrderHeader } from './keeper-wire.ts';
import { type Execution, KeptCommand } from './kept-command.ts';
import type { OwnerRecord } from './layout.ts';
import { markOf } from './layout.ts';
import { Leftovers } from './leftovers.ts';

const MAIN = fileURLToPath(new URL('./keeper-main.ts', import.meta.url));

/** A command that was adopted with a living wrapper: this process stands for it. */
function adoptedCommand(
  t: TestContext,
  owner: Partial<OwnerRecord>,
): { command: KeptCommand; kit: CommandKit } {
  const kit = new CommandKit(t);
  const paths = kit.paths('job:1');
  fs.mkdirSync(paths.work, { recursive: true });
  fs.writeFileSync(paths.owner, '{}');
  fs.writeFileSync(paths.stdout, '');
  const execution = { paths, mark: markOf('none', paths.name), owner } as Execution;
  return { command: new KeptCommand(execution, new Leftovers()), kit };
}

test('a timeout longer than the longest timer stops the command neither at once nor early', (t) => {
  const timeout_ms = 2 ** 40;
  const { command } = adoptedCommand(t, { started_at: Date.now(), timeout_ms });
  const now = performance.now();
  const stops: string[] = [];
  command.stop = (why) => void stops.push(why);
  for (const later of [2 ** 31, timeout_ms, timeout_ms + 4000]) command.look(now + later);
  assert.deepEqual(stops, []);
  command.look(now + timeout_ms + 6000);
  assert.deepEqual(stops, ['timeout']);
});

describe('a command that failed just before its keeper was told to stop by somebody else', () => {
  /** The reason in `exit.json` of a command that leaves a process behind, which holds up its end. */
  async function whyOf(t: TestContext, order: 'kill' | 'none', code: number): Promise<string> {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh(`sleep 60 & exit ${code}`));
    await backend.offer(offerOf('job:1'));
    const paths = kit.paths('job:1');
    const { pid } = await until(() => kit.wrapper('job:1'));
    // Its keeper has seen its end when it is not even a zombie any more.
    await until(() => !fs.existsSync(`/proc/${pid}`));
    if (order === 'kill') fs.writeFileSync(paths.kill, '');
    kill(kit.record<OwnerRecord>(paths.owner).pid, 'SIGTERM');
    await hear(backend, 'job:1');
    return kit.record<{ why: string }>(paths.exit).why;
  }

  test('was told to stop too', async (t) => {
    assert.equal(await whyOf(t, 'none', 1), 'terminated');
  });
  test('and had done its work, has done it', async (t) => {
    assert.equal(await whyOf(t, 'none', 0), 'exit');
  });
  test('and was to be stopped, has failed before', async (t) => {
    assert.equal(await whyOf(t, 'kill', 1), 'exit');
  });
});

test('a keeper starts nothing unless it has got all of an order', (t) => {
  const kit = new CommandKit(t);
  for (const name of ['executions', 'staging']) fs.mkdirSync(`${kit.folder}/${name}`, { recursive: true });
  const payload = '"é\n"';
  const order = Buffer.from(`${JSON.stringify(headerOf(kit, payload))}\n${payload}`);
  const answerTo = (input: Buffer): string =>
    spawnSync(process.execPath, [MAIN], { input, cwd: kit.root, encoding: 'utf8', timeout: 20_000 }).stdout;
  const cuts = [0, 1, order.indexOf('\n'), order.indexOf('\n') + 1, order.length - 1];
  for (const cut of cuts) assert.equal(answerTo(order.subarray(0, cut)), '', `cut at ${cut}`);
  assert.equal(answerTo(Buffer.from('no order\n')), '');
  for (const name of ['executions', 'staging']) assert.deepEqual(fs.readdirSync(`${kit.folder}/${name}`), []);
  assert.equal(answerTo(order), '{"id":7,"is":"accepted"}\n');
  assert.equal(fs.readFileSync(kit.ledger, 'utf8'), payload);
});

function headerOf(kit: CommandKit, payload: string): OrderHeader {
  const spec: CommandSpec = {
    name: kit.paths('job:1').name,
    token: 'job:1',
    hash: undefined,
    jobId: 'job',
    model: undefined,
    argv: ['sh', '-c', `cat >> ${kit.ledger}`],
    cwd: undefined,
    env: { PATH: process.env['PATH'] ?? '' },
    split: 'line',
    timeoutMs: undefined,
    maxOutputBytes: 1000,
    offeredAt: Date.now(),
  };
  const bytes = Buffer.byteLength(payload);
  return { id: 7, bytes, folder: kit.folder, registry: 'r', order: { is: 'run', spec } };
}

test('one keeper runs all commands of a brain, and goes on with them when the brain leaves it', async (t) => {
  const kit = new CommandKit(t);
  const go = join(kit.root, 'go');
  const backend = kit.backend(sh(`until [ -e ${go} ]; do sleep 0.02; done; echo done`), { slots: 9 });
  const tokens = Array.from({ length: 9 }, (_, at) => `job${at}:1`);
  await Promise.all(tokens.map((token) => backend.offer(offerOf(token))));
  const keepers = new Set(tokens.map((token) => kit.record<OwnerRecord>(kit.paths(token).owner).pid));
  assert.equal(keepers.size, 1);
  await backend.stop();
  const [pid] = keepers;
  const keeper = identityOf(pid as number);
  assert.ok(isAlive(keeper));
  fs.writeFileSync(go, '');
  await until(() => !isAlive(keeper));
  for (const token of tokens) assert.equal((await hear(kit.backend(sh('true')), token)).text, 'done\n');
});

test('a command that was told to stop by a signal to its whole group still reports its end', async (t) => {
  const kit = new CommandKit(t);
  const { outcome, text } = await run(
    kit.backend(sh(`trap 'echo bye; exit 3' TERM; kill -TERM 0; sleep 60`)),
    'job:1',
  );
  assert.equal(text, 'bye\n');
  assert.partialDeepStrictEqual(outcome, { ok: false, error: { message: 'exit code 3' } });
});

test('a program named like a builtin of the shell is the program', async (t) => {
  const kit = new CommandKit(t);
  const folder = join(kit.root, 'programs');
  fs.mkdirSync(folder);
  for (const name of ['exit', 'echo', 'cd'])
    fs.writeFileSync(join(folder, name), '#!/bin/sh\nprintf "%s," program "$@"', { mode: 0o700 });
  for (const name of ['exit', 'echo', 'cd']) {
    const type = { argv: [name, '$(id)', '0'], env: { PATH: `${folder}:/bin` } };
    assert.equal((await run(kit.backend(type), `${name}:1`)).text, 'program,$(id),0,');
  }
});

test('a process that left the group and the session of its command ends with it', async (t) => {
  const kit = new CommandKit(t);
  const { text } = await run(kit.backend(sh('setsid sleep 600 >/dev/null 2>&1 & echo left')), 'job:1');
  assert.equal(text, 'left\n');
  assert.deepEqual(kit.commands(), []);
});

test('what a command wrote to standard error has a bound, and its end is kept', async (t) => {
  const kit = new CommandKit(t);
  const script = `i=0; while [ $i -lt 30 ]; do head -c 1000000 /dev/zero >&2; i=$((i+1)); sleep 0.05; done; echo last >&2; exit 1`;
  const { outcome } = await run(kit.backend(sh(script)), 'job:1');
  assert.ok(typeof outcome === 'object' && outcome.ok === false && outcome.error.message.endsWith('last'));
  assert.ok(fs.statSync(kit.paths('job:1').stderr).size < 20_000_000);
});

test('a command that removes the file with its status has run, and is not said to have failed to start', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('rm -f ../status; echo done'));
  await backend.offer(offerOf('job:1'));
  const { outcome, text } = await hear(backend, 'job:1');
  const ok = typeof outcome === 'object' && outcome.ok;
  assert.deepEqual([ok, text], [true, 'done\n']);
});

test('a command that puts a pipe in the place of its files holds up no other', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('rm ../stderr ../stdout; mkfifo ../stderr ../stdout; exit 1'), { slots: 2 });
  await backend.offer(offerOf('job:1'));
  const other = kit.backend(sh('echo fine'), { slots: 2 });
  await other.offer(offerOf('job:2'));
  assert.equal((await hear(other, 'job:2')).text, 'fine\n');
  const ended = await until(async () => {
    const { known } = await backend.inspect(['job:1'], WHO);
    return known.get('job:1')?.is === 'forgotten' ? true : undefined;
  });
  assert.ok(ended);
});

test('a command that removes its own output has an unknown outcome', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('echo gone; rm ../stdout'));
  await run(backend, 'job:1');
  const end = await backend.follow('job:1', 0, () => undefined, WHO);
  assert.deepEqual(end, { is: 'forgotten', why: 'its output could not be written' });
});

test('a command that removes its output can be followed while it runs', async (t) => {
  const kit = new CommandKit(t);
  const go = join(kit.root, 'go');
  const backend = kit.backend(sh(`rm ../stdout; while [ ! -e ${go} ]; do sleep 0.01; done`));
  await backend.offer(offerOf('job:1'));
  await until(async () => (fs.existsSync(kit.paths('job:1').stdout) ? undefined : true));
  const end = await backend.follow('job:1', 0, () => fs.writeFileSync(go, ''), WHO);
  assert.deepEqual(end, { is: 'forgotten', why: 'its output could not be written' });
});

test('what is appended to the output after the end is not read', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('echo whole'));
  const before = await run(backend, 'job:1');
  fs.appendFileSync(kit.paths('job:1').stdout, 'late\n');
  const after = await hear(backend, 'job:1');
  assert.deepEqual([after.text, after.outcome], ['whole\n', before.outcome]);
});

describe('the result of a command', () => {
  const resultOf = async (t: TestContext, output: string): Promise<unknown> => {
    const kit = new CommandKit(t);
    const file = join(kit.root, 'output');
    fs.writeFileSync(file, output);
    const { outcome } = await run(kit.backend(sh(`cat ${file}`)), 'job:1');
    assert.ok(typeof outcome === 'object' && outcome.ok === true && 'resultText' in outcome);
    return JSON.parse(outcome.resultText);
  };

  test('has the JSON that the command wrote, beside its text', async (t) => {
    const text = ' {"a": [1, "\\u00fc", {"b": null}],\n "n": 12345678901234567890}\n';
    assert.deepEqual(await resultOf(t, text), { text, exit_code: 0, json: JSON.parse(text) });
    const list = `[${'{"k":"v"},'.repeat(20_000)}1]`;
    assert.deepEqual(await resultOf(t, list), { text: list, exit_code: 0, json: JSON.parse(list) });
  });

  test('has only the text where the whole of it is no JSON object or array', async (t) => {
    const deep = '['.repeat(5000) + ']'.repeat(5000);
    for (const text of ['7', '"word"', 'null', '{"a":1}\n{"b":2}\n', '{"a":', '[1] and more', '', deep])
      assert.deepEqual(await resultOf(t, text), { text, exit_code: 0 });
  });
});
