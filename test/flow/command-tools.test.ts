/** Commands as tools of agents: what they can reach, how they end, and what a restart makes of them. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { probeSandbox } from '../../src/backends/local/command/sandbox-probe.ts';
import type { Orchestrator } from '../../src/index.ts';
import { needDebian } from '../fakes/debian.ts';
import { type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { unmarked } from '../fakes/unmarked.ts';
import { dataOf, LASTING, onStores, start, within } from './flow-kit.ts';

/** Whether bubblewrap works on this machine; where it does not, only what holds without it is tested. */
let isConfined = false;
before(async () => {
  await needDebian('bubblewrap', 'bwrap');
  isConfined = (await probeSandbox(tmpdir())).works;
});

interface Command {
  readonly name: string;
  readonly argv: readonly string[];
  readonly [more: string]: unknown;
}

const sh = (script: string, more: object = {}): Command => ({
  name: 'run',
  description: 'Runs.',
  argv: ['sh', '-c', script],
  ...more,
});

function folderOf(t: TestContext): string {
  const folder = fs.mkdtempSync(join(tmpdir(), 'orchd-tool-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** `state`: the folder for commands of a brain whose records are in a database. */
const configOf = (command: Command, state?: string): string =>
  Object.entries({
    agents: [{ name: 'a', model: 'scripted', tools: [command.name], commands: [command] }],
    ...(state !== undefined && { orchestrator: { state: { checkpoint_dir: state } } }),
  })
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join('');

const asks = (...args: object[]) =>
  new ScriptedModel((turn): Said => {
    const given = args[turn];
    return given ? { calls: [['c', 'run', given]] } : { text: 'done' };
  });

interface Step {
  readonly tool?: string;
  readonly error?: string;
}

/** Starts a brain and a run; allows every call that waits for it where nothing is confined. */
async function begin(
  t: TestContext,
  data: string,
  command: Command,
  model: ScriptedModel,
  state = folderOf(t),
) {
  const config = configOf(command, state);
  const brain = await start(t, { data, config, backends: [model.backend()] });
  await brain.submit({ job_id: 'r', type: 'agent', payload: { agent: 'a', input: 'go' } });
  if (!isConfined) void allowAll(brain);
  return brain;
}

async function allowAll(brain: Orchestrator): Promise<void> {
  while ((await brain.get('r')).ended_at === undefined) {
    const { jobs } = await brain.list({ type: 'approval', state: 'waiting' });
    for (const { job_id: id } of jobs)
      await brain.orders.answer(id, 1, { approve: true, by: 'test' }, 'default').catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** What the model was told of each of its calls, and the errors in the steps. */
async function toldOf(brain: Orchestrator, model: ScriptedModel) {
  const { result } = await within(brain.wait('r'));
  const { steps } = result as { steps: Step[] };
  const told = (model.heard.at(-1)?.messages ?? []).filter(({ role }) => role === 'tool');
  return {
    told: told.map(({ content }) => unmarked(content)),
    errors: steps.flatMap(({ tool, error }) => (tool === undefined ? [] : [error])),
  };
}

async function outputOf(t: TestContext, command: Command, args: object = {}): Promise<string> {
  const model = asks(args);
  const brain = await begin(t, await dataOf(t, 'journal'), command, model);
  return (await toldOf(brain, model)).told[0] ?? '';
}

describe('a command as a tool', () => {
  onStores('gets its arguments as words and as JSON, and is not run by a shell', LASTING, async (t, data) => {
    const parameters = {
      type: 'object',
      properties: { what: { type: 'string' }, n: { type: 'integer' } },
      required: ['what'],
      additionalProperties: false,
    };
    const script = 'for w in "$@"; do echo "[$w]"; done; cat';
    const argv = ['sh', '-c', script, 'sh', '{what}', '--count={n}'];
    const command = { name: 'run', description: 'Runs.', argv, parameters, effect: 'pure' };
    const model = asks({ what: '$(id); *' }, { what: '-x' }, { what: 'a', m: 1 });
    const brain = await begin(t, data, command, model);
    const { told, errors } = await toldOf(brain, model);
    assert.equal(told[0], '[$(id); *]\n{"what":"$(id); *"}');
    assert.match(told[1] ?? '', /"what" may not begin with "-"/);
    assert.match(told[2] ?? '', /m/);
    assert.deepEqual(errors, [undefined, 'INVALID_ARGUMENTS', 'INVALID_ARGUMENTS']);
    const { type, attempts } = await brain.get(isConfined ? 'r.2.0' : 'r.3.0');
    assert.deepEqual([type, attempts.map(({ backend }) => backend)], ['tool', ['agent-commands']]);
  });

  test('sees nothing of this machine but its programs, and writes only into its folder', async (t) => {
    if (!isConfined) return t.skip('bubblewrap does not work on this machine');
    const folder = folderOf(t);
    const other = folderOf(t);
    process.env['ORCHD_TEST_SECRET'] = 'canary-5167';
    const script = [
      `ls ${other} 2>&1`,
      'ls /root /home /var 2>&1',
      'cat /etc/shadow 2>&1',
      'touch /usr/x 2>&1',
      'grep : /proc/net/dev | cut -d: -f1',
      'env',
      'echo kept > kept; echo private > /tmp/orchd-private; pwd',
      'echo $$',
    ].join('\n');
    const text = await outputOf(t, sh(script, { folder }));
    for (const path of [other, '/root', '/home', '/var'])
      assert.match(text, new RegExp(`cannot access '${path}'|${path}.*No such file`));
    assert.match(text, /\/etc\/shadow: No such file/);
    assert.match(text, /\/usr\/x.*Read-only file system/);
    assert.deepEqual(text.match(/^ *(lo|eth\d|en\w+)$/gm), ['    lo']);
    assert.doesNotMatch(text, /canary|ORCHD_/);
    assert.match(text, new RegExp(`^HOME=${folder}$`, 'm'));
    assert.match(text, /^[0-9]$/m);
    assert.equal(fs.readFileSync(join(folder, 'kept'), 'utf8'), 'kept\n');
    assert.equal(fs.existsSync('/tmp/orchd-private'), false);
  });

  test('leaves no process behind, also none that hides', async (t) => {
    if (!isConfined) return t.skip('bubblewrap does not work on this machine');
    const mark = `9${process.pid}.5167`;
    const text = await outputOf(t, sh(`env -i setsid sleep ${mark} & sleep 0.2; echo ended`));
    assert.equal(text, 'ended\n');
    const left = fs.readdirSync('/proc').filter((pid) => {
      try {
        return (
          /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`sleep\0${mark}`)
        );
      } catch {
        return false;
      }
    });
    assert.deepEqual(left, []);
  });

  test('that fails is told once, that takes too long is given up, and what it writes is cut', async (t) => {
    const failed = asks({});
    const failing = await begin(
      t,
      await dataOf(t, 'journal'),
      sh('echo oh >&2; exit 3', { effect: 'pure' }),
      failed,
    );
    const { told, errors } = await toldOf(failing, failed);
    assert.deepEqual([told, errors], [['error: exit code 3: oh'], ['TOOL_FAILED']]);
    assert.equal((await failing.get(isConfined ? 'r.2.0' : 'r.3.0')).attempts.length, 1);
    const slow = await outputOf(t, sh('exec sleep 1000', { timeout_ms: 300 }));
    assert.match(slow, /^error: it ran longer than 300 ms\nIt may have been done all the same/);
    const long = await outputOf(t, sh('yes | head -c 100000', { max_output_bytes: 1000 }));
    assert.match(long, /^(y\n){500}\n\[cut: the first 1000 of 100000 bytes/);
  });

  test('that could not be started says so, and may be tried again', async (t) => {
    const folder = join(folderOf(t), 'missing');
    assert.match(await outputOf(t, sh('echo', { folder })), /^error: there is no folder for it to run in/);
  });

  onStores('that has ended while there was no brain is not run again', LASTING, async (t, data) => {
    const folder = folderOf(t);
    const script =
      'echo begun >> ledger; while [ ! -e go ]; do sleep 0.05; done; echo ended >> ledger; echo paid';
    const command = sh(script, { folder });
    const model = asks({});
    const state = folderOf(t);
    const first = await begin(t, data, command, model, state);
    const ledger = join(folder, 'ledger');
    const until = async (lines: string): Promise<void> => {
      while (!fs.existsSync(ledger) || fs.readFileSync(ledger, 'utf8') !== lines)
        await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await within(until('begun\n'));
    await within(first.stop());
    fs.writeFileSync(join(folder, 'go'), '');
    await within(until('begun\nended\n'));
    const config = configOf(command, state);
    const second = await start(t, { data, config, backends: [model.backend()] });
    const { told } = await toldOf(second, model);
    assert.deepEqual(told, ['paid\n']);
    assert.equal(fs.readFileSync(ledger, 'utf8'), 'begun\nended\n');
  });

  test('is gone with its agent, for a run that waits too', async (t) => {
    const data = await dataOf(t, 'journal');
    const asked = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const model = new ScriptedModel(async (turn): Promise<Said> => {
      if (turn > 0) return { text: 'done' };
      asked.resolve();
      await goOn.promise;
      return { calls: [['c', 'run', {}]] };
    });
    const command = sh('echo');
    const first = await begin(t, data, command, model);
    await within(asked.promise);
    const stopped = first.stop();
    goOn.resolve();
    await within(stopped);
    const second = await start(t, { data, backends: [model.backend()] });
    assert.deepEqual((await toldOf(second, model)).errors, ['TOOL_GONE']);
  });

  test('needs a data folder, and a name and parameters of its own', async (t) => {
    const backends = [asks().backend()];
    for (const [data, command] of [
      ['memory', sh('echo')],
      [await dataOf(t, 'journal'), sh('echo', { name: 'current_time' })],
      [await dataOf(t, 'journal'), { ...sh('echo'), argv: ['echo', '{x}'] }],
    ] as const)
      await assert.rejects(start(t, { data, config: configOf(command), backends }), {
        code: 'INVALID_PARAMS',
      });
  });
});

describe('a command on a machine where bubblewrap does not work', () => {
  test('is called only after a person has allowed it', async (t) => {
    const bin = folderOf(t);
    fs.writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho "bwrap: not here" >&2; exit 1\n', { mode: 0o755 });
    const path = process.env['PATH'];
    process.env['PATH'] = [bin, path].join(delimiter);
    t.after(() => {
      process.env['PATH'] = path;
    });
    const folder = folderOf(t);
    const command = sh('echo run >> ledger; echo ran', { folder, effect: 'pure' });
    const model = asks({});
    const config = configOf(command);
    const data = await dataOf(t, 'journal');
    const brain = await start(t, { data, config, backends: [model.backend()] });
    await brain.submit({ job_id: 'r', type: 'agent', payload: { agent: 'a', input: 'go' } });
    const waiting = async () => (await brain.list({ type: 'approval', state: 'waiting' })).jobs[0];
    let call = await waiting();
    while (!call) call = await waiting();
    assert.equal(fs.existsSync(join(folder, 'ledger')), false);
    await brain.orders.answer(call.job_id, 1, { approve: true, by: 'ann' }, 'default');
    assert.deepEqual((await toldOf(brain, model)).told, ['ran\n']);
    assert.equal(fs.readFileSync(join(folder, 'ledger'), 'utf8'), 'run\n');
    // A call that was asked for when it did not have to be allowed: on another machine, or before.
    const payload = { agent: 'a', tool: 'run', args: {} };
    await brain.submit({ job_id: 'x', type: 'tool', backend: 'command', max_tries: 1, payload });
    const { state, error } = await within(brain.wait('x'));
    assert.deepEqual([state, error?.code], ['dead', 'ILLEGAL_STATE']);
    assert.equal(fs.readFileSync(join(folder, 'ledger'), 'utf8'), 'run\n');
  });
});
