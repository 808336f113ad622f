import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, type TestContext, test } from 'node:test';
import { CommandKit, hear, kill, offerOf, sh, until, WHO } from '../../../../test/fakes/command-kit.ts';
import { identityOf, isAlive, type ProcessIdentity } from '../../../kit/process/identity.ts';
import { markVariable } from '../../../kit/process/marked.ts';
import type { CommandBackend } from './command.ts';
import type { CommandSpec } from './keeper-wire.ts';
import { markOf, type OwnerRecord } from './layout.ts';
import type { CommandType } from './options.ts';
import { SHELL, wrapperWords } from './wrapper.ts';

const BRAIN = join(import.meta.dirname, '../../../../test/fakes/command-brain.ts');

/** A brain in a process of its own, which prints a line for each step. */
class OtherBrain {
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];

  constructor(t: TestContext, kit: CommandKit, work: CommandType) {
    const options = JSON.stringify({ name: 'local', folder: kit.folder, slots: 4, types: { work } });
    this.#child = spawn(process.execPath, [BRAIN, options, 'job:1'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface({ input: this.#child.stdout! }).on('line', (line) => this.#lines.push(line));
    t.after(() => this.kill());
  }

  printed(line: string): Promise<boolean> {
    return until(() => this.#lines.includes(line));
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await until(() => this.#child.signalCode !== null || this.#child.exitCode !== null);
  }
}

const ownerOf = (kit: CommandKit): OwnerRecord => kit.record(kit.paths('job:1').owner);

/** A command that waits for a file before it writes the rest of its output. */
function waitingCommand(kit: CommandKit): { type: CommandType; go: () => void } {
  const file = join(kit.root, 'go');
  const script = `echo ran >> ${kit.ledger}; echo a; echo b; until [ -e ${file} ]; do sleep 0.02; done; printf 'c\\nrest'`;
  return { type: sh(script), go: () => fs.writeFileSync(file, '') };
}

/** The command of `waitingCommand` has run once, and all of its output is there. */
async function assertRanOnce(
  kit: CommandKit,
  backend: CommandBackend,
  read: ReturnType<typeof hear>,
): Promise<void> {
  assert.deepEqual((await read).outcome, {
    ok: true,
    resultText: JSON.stringify({ text: 'a\nb\nc\nrest', exit_code: 0 }),
  });
  await assertSameFromEverywhere(backend);
  assert.deepEqual(kit.runs(), ['ran']);
}

async function assertSameFromEverywhere(backend: CommandBackend): Promise<void> {
  const whole = await hear(backend, 'job:1');
  assert.equal(whole.text, 'a\nb\nc\nrest');
  assert.deepEqual(
    whole.events.map(({ n }) => n),
    [1, 2, 3, 4, 5],
  );
  for (let from = 0; from <= 6; from++) {
    const { events, outcome } = await hear(backend, 'job:1', from);
    assert.deepEqual(events, whole.events.slice(from));
    assert.deepEqual(outcome, whole.outcome);
  }
}

describe('when the brain is killed', () => {
  test('right after an offer is accepted, the command goes on and is found running', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const brain = new OtherBrain(t, kit, type);
    await brain.printed('accepted');
    await brain.kill();
    const backend = kit.backend(type);
    await backend.start();
    assert.deepEqual([...(await backend.inspect(['job:1'], WHO)).known], [['job:1', { is: 'running' }]]);
    const read = hear(backend, 'job:1');
    go();
    await assertRanOnce(kit, backend, read);
  });

  test('in the middle of the output, the next brain reads the same events and the rest', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const brain = new OtherBrain(t, kit, type);
    await brain.printed('event 3');
    await brain.kill();
    const backend = kit.backend(type);
    const rest = hear(backend, 'job:1', 2);
    go();
    assert.equal((await rest).text, 'b\nc\nrest');
    await assertSameFromEverywhere(backend);
    // A backend that is started after the end reads the same.
    await assertSameFromEverywhere(kit.backend(type));
    assert.deepEqual(kit.runs(), ['ran']);
  });

  test('and the command ends before the next brain starts, its end is kept', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const brain = new OtherBrain(t, kit, type);
    await brain.printed('accepted');
    await brain.kill();
    go();
    await until(() => fs.existsSync(kit.paths('job:1').exit));
    const backend = kit.backend(type);
    await backend.start();
    assert.equal((await backend.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
    await assertSameFromEverywhere(backend);
  });

  for (const delayMs of [0, 2, 8, 20, 60]) {
    test(`${delayMs} ms into an offer, the command runs once or never`, async (t) => {
      const kit = new CommandKit(t);
      const type = sh(`echo ran >> ${kit.ledger}`);
      const brain = new OtherBrain(t, kit, type);
      await brain.printed('offering');
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      await brain.kill();
      const backend = kit.backend(type);
      const reply = await until(async () => {
        const answer = await backend.kill('job:1', WHO);
        return answer.is === 'stopping' ? undefined : answer;
      });
      // A keeper that starts late finds the tombstone, or got only half of its spec.
      await until(() => kit.processes().length === 0);
      assert.ok(kit.runs().length <= (reply.is === 'tombstoned' ? 0 : 1));
      assert.deepEqual(fs.readdirSync(join(kit.folder, 'staging')), []);
    });
  }
});

describe('a keeper that is killed', () => {
  test('while the command runs: the command goes on, and the next keeper reports its end', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const backend = kit.backend(type);
    await backend.offer(offerOf('job:1'));
    const read = hear(backend, 'job:1');
    await until(() => kit.runs().length === 1);
    const first = ownerOf(kit);
    kill(first.pid, 'SIGKILL');
    await until(() => !isAlive(first));
    assert.deepEqual((await backend.inspect(['job:1'], WHO)).known.get('job:1'), { is: 'running' });
    assert.ok(isAlive(kit.record(join(kit.paths('job:1').folder, 'keeper-1', 'owner.json'))));
    go();
    await assertRanOnce(kit, backend, read);
  });

  test('and the next one too: each is followed by another', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const backend = kit.backend(type);
    await backend.offer(offerOf('job:1'));
    await until(() => kit.runs().length === 1);
    let keeper: ProcessIdentity = ownerOf(kit);
    for (const heir of [1, 2, 3]) {
      kill(keeper.pid, 'SIGKILL');
      await until(() => !isAlive(keeper));
      await backend.inspect(['job:1'], WHO);
      keeper = kit.record(join(kit.paths('job:1').folder, `keeper-${heir}`, 'owner.json'));
    }
    go();
    assert.equal((await hear(backend, 'job:1')).text, 'a\nb\nc\nrest');
  });

  test('is followed by one other, however many brains ask for it at once', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const brains = [kit.backend(type), kit.backend(type), kit.backend(type)];
    for (const brain of brains) await brain.start();
    await brains[0]?.offer(offerOf('job:1'));
    await until(() => kit.runs().length === 1);
    const first = ownerOf(kit);
    kill(first.pid, 'SIGKILL');
    await until(() => !isAlive(first));
    const seen = await Promise.all(brains.map((brain) => brain.inspect(['job:1'], WHO)));
    for (const { known } of seen) assert.deepEqual(known.get('job:1'), { is: 'running' });
    assert.ok(!fs.existsSync(join(kit.paths('job:1').folder, 'keeper-2')));
    go();
    for (const brain of brains) assert.equal((await hear(brain, 'job:1')).text, 'a\nb\nc\nrest');
    assert.deepEqual(kit.runs(), ['ran']);
  });

  test('while no brain was running: the next start keeps the command, and its kill ends it', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('exec sleep 600'));
    await one.offer(offerOf('job:1'));
    const wrapper = await until(() => kit.wrapper('job:1'));
    await one.stop();
    kill(ownerOf(kit).pid, 'SIGKILL');
    await until(() => !isAlive(ownerOf(kit)));
    const two = kit.backend(sh('true'));
    await two.start();
    assert.ok(isAlive(wrapper));
    assert.equal((await two.kill('job:1', WHO)).is, 'stopping');
    assert.deepEqual((await hear(two, 'job:1')).outcome, { ok: 'cancelled' });
    assert.equal(isAlive(wrapper), false);
  });

  test('and its command ends before there is another: the end is the one that the wrapper wrote', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const one = kit.backend(type);
    await one.offer(offerOf('job:1'));
    await until(() => kit.runs().length === 1);
    await one.stop();
    const wrapper = kit.wrapper('job:1') as ProcessIdentity;
    kill(ownerOf(kit).pid, 'SIGKILL');
    go();
    await until(() => !isAlive(wrapper) && !isAlive(ownerOf(kit)));
    const two = kit.backend(type);
    assert.equal((await two.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
    await assertSameFromEverywhere(two);
  });

  test('with its machine: what the wrapper wrote is not trusted, since the output may not be whole', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waitingCommand(kit);
    const one = kit.backend(type);
    await one.offer(offerOf('job:1'));
    await until(() => kit.runs().length === 1);
    await one.stop();
    kill(ownerOf(kit).pid, 'SIGKILL');
    go();
    await until(() => kit.processes().length === 0);
    fs.writeFileSync(kit.paths('job:1').owner, JSON.stringify({ ...ownerOf(kit), boot: 'another' }));
    const { known } = await kit.backend(type).inspect(['job:1'], WHO);
    assert.deepEqual(known.get('job:1'), { is: 'forgotten', why: 'what kept it is gone' });
  });
});

describe('a wrapper that is killed', () => {
  for (const alone of [true, false]) {
    const title = alone ? 'alone' : 'with its keeper';
    test(`${title}: every process of the execution is ended, and the outcome is unknown`, async (t) => {
      const kit = new CommandKit(t);
      // The first two are in the group of the wrapper, the third is not.
      const backend = kit.backend(sh('echo a; trap "" TERM; setsid sleep 600 & while :; do sleep 1; done'));
      await backend.offer(offerOf('job:1'));
      const read = hear(backend, 'job:1');
      await until(() => kit.commands().length >= 4);
      if (!alone) kill(ownerOf(kit).pid, 'SIGKILL');
      kill(kit.wrapper('job:1')?.pid as number, 'SIGKILL');
      assert.equal((await read).outcome, 'forgotten');
      assert.deepEqual(kit.commands(), []);
      // A later reader gets the same outcome.
      assert.equal((await hear(kit.backend(sh('true')), 'job:1')).outcome, 'forgotten');
    });
  }

  test('before it began: a wrapper that comes late runs nothing', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh(`echo ran >> ${kit.ledger}`));
    await backend.offer(offerOf('job:1'));
    await hear(backend, 'job:1');
    assert.deepEqual(kit.runs(), ['ran']);
    // As another keeper finds it whose predecessor died between the two.
    const paths = kit.paths('job:1');
    fs.rmSync(paths.exit);
    fs.rmSync(paths.status);
    fs.writeFileSync(paths.owner, JSON.stringify({ ...ownerOf(kit), start: '1' }));
    // By another brain: the keeper of this one may not have let go of it yet.
    const { known } = await kit.backend(sh('true')).inspect(['job:1'], WHO);
    assert.equal(known.get('job:1')?.is, 'forgotten');
    const spec = { argv: ['sh'], env: {} } as unknown as CommandSpec;
    const words = wrapperWords(spec, '/bin/touch', paths, 'voice');
    const late = spawnSync(SHELL, [...words, join(kit.root, 'late')], { encoding: 'utf8' });
    assert.notEqual(late.status, 0);
    assert.equal(fs.existsSync(join(kit.root, 'late')), false);
  });
});

describe('a reused pid', () => {
  /** A backend over an execution without a living process, whose owner.json has been changed. */
  async function withOwner(kit: CommandKit, change: Partial<OwnerRecord>): Promise<CommandBackend> {
    const backend = kit.backend(sh('exec sleep 600'));
    await backend.offer(offerOf('job:1'));
    const wrapper = await until(() => kit.wrapper('job:1'));
    const owner = ownerOf(kit);
    kill(owner.pid, 'SIGKILL');
    kill(-wrapper.pid, 'SIGKILL');
    await until(() => !isAlive(owner) && !isAlive(wrapper));
    fs.writeFileSync(kit.paths('job:1').owner, JSON.stringify({ ...owner, ...change }));
    return kit.backend(sh('true'));
  }

  test('is taken neither for the keeper nor for the wrapper, nor killed', async (t) => {
    const kit = new CommandKit(t);
    const bystander = spawn('sleep', ['600'], { detached: true });
    t.after(() => bystander.kill('SIGKILL'));
    // The start time differs: a process is identified by its pid and its start in hundredths of a second.
    const backend = await withOwner(kit, { pid: bystander.pid!, start: '1' });
    fs.writeFileSync(kit.paths('job:1').status, `pid ${bystander.pid}\n`);
    const { known } = await backend.inspect(['job:1'], WHO);
    assert.equal(known.get('job:1')?.is, 'forgotten');
    assert.equal(bystander.exitCode ?? bystander.signalCode, null);
    assert.ok(fs.existsSync(`/proc/${bystander.pid}`));
  });

  test('is not taken for a process of an earlier boot', async (t) => {
    const kit = new CommandKit(t);
    const backend = await withOwner(kit, { ...identityOf(process.pid), boot: 'another' });
    assert.equal((await backend.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'forgotten');
  });

  test('invalid pids are never signalled', async (t) => {
    const kit = new CommandKit(t);
    for (const pid of [-1, 0, 1, 1.5, Number.NaN]) {
      assert.equal(isAlive({ pid, start: '', boot: ownBoot() }), false);
    }
    const backend = await withOwner(kit, { pid: -1 });
    assert.equal((await backend.kill('job:1', WHO)).is, 'forgotten');
  });
});

test('an execution of an earlier version, whose supervisor is dead, is ended with an unknown outcome', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('true'));
  await backend.start();
  const paths = kit.paths('job:1');
  fs.mkdirSync(paths.work, { recursive: true });
  fs.writeFileSync(paths.stdout, 'so far\n');
  const mark = markVariable(markOf(backend.info.registry, paths.name));
  const left = spawn('sleep', ['600'], { cwd: paths.work, detached: true, env: { ...process.env, ...mark } });
  const { pid } = left;
  fs.writeFileSync(paths.child, JSON.stringify(identityOf(pid as number)));
  const owner = {
    ...identityOf(process.pid),
    start: '1',
    token: 'job:1',
    job_id: 'job',
    split: 'line',
    started_at: 1,
  };
  fs.writeFileSync(paths.owner, JSON.stringify(owner));
  const { outcome, text } = await hear(backend, 'job:1');
  assert.deepEqual([outcome, text], ['forgotten', 'so far\n']);
  assert.equal(await until(() => left.signalCode), 'SIGKILL');
});

const ownBoot = (): string => fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

test('an execution whose owner.json cannot be read is ended at the next start', async (t) => {
  const kit = new CommandKit(t);
  const one = kit.backend(sh('exec sleep 600'));
  await one.offer(offerOf('job:1'));
  await until(() => kit.wrapper('job:1'));
  kill(ownerOf(kit).pid, 'SIGKILL');
  fs.writeFileSync(kit.paths('job:1').owner, 'no json');
  const two = kit.backend(sh('true'));
  await two.start();
  assert.equal((await two.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'forgotten');
  assert.deepEqual(kit.commands(), []);
});
