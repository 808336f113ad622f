import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, type TestContext, test } from 'node:test';
import { CommandKit, hear, kill, offerOf, sh, until, WHO } from '../../../../test/fakes/command-kit.ts';
import { identityOf, isAlive, type ProcessIdentity } from '../../../kit/process/identity.ts';
import type { CommandBackend } from './command.ts';
import type { OwnerRecord } from './layout.ts';
import type { CommandType } from './options.ts';

const BRAIN = join(import.meta.dirname, '../../../../test/fakes/command-brain.ts');

/** A brain in a process of its own, and a promise for each thing it says. */
class OtherBrain {
  readonly #child: ChildProcess;
  readonly #said: string[] = [];

  constructor(t: TestContext, kit: CommandKit, work: CommandType) {
    const options = JSON.stringify({ name: 'local', folder: kit.folder, slots: 4, types: { work } });
    this.#child = spawn(process.execPath, [BRAIN, options, 'job:1'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface({ input: this.#child.stdout! }).on('line', (line) => this.#said.push(line));
    t.after(() => this.kill());
  }

  says(line: string): Promise<boolean> {
    return until(() => this.#said.includes(line));
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await until(() => this.#child.signalCode !== null || this.#child.exitCode !== null);
  }
}

const ownerOf = (kit: CommandKit): OwnerRecord => kit.record(kit.paths('job:1').owner);

/** A command that waits for a file before it says the rest. */
function waiting(kit: CommandKit): { type: CommandType; go: () => void } {
  const file = join(kit.root, 'go');
  const script = `echo ran >> ${kit.ledger}; echo a; echo b; until [ -e ${file} ]; do sleep 0.02; done; printf 'c\\nrest'`;
  return { type: sh(script), go: () => fs.writeFileSync(file, '') };
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
  test('right after the acceptance, the command goes on and is found running', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waiting(kit);
    const brain = new OtherBrain(t, kit, type);
    await brain.says('accepted');
    await brain.kill();
    const backend = kit.backend(type);
    await backend.start();
    assert.deepEqual([...(await backend.inspect(['job:1'], WHO)).known], [['job:1', { is: 'running' }]]);
    const heard = hear(backend, 'job:1');
    go();
    assert.deepEqual((await heard).outcome, {
      ok: true,
      resultText: JSON.stringify({ text: 'a\nb\nc\nrest', exit_code: 0 }),
    });
    await assertSameFromEverywhere(backend);
    assert.deepEqual(kit.runs(), ['ran']);
  });

  test('in the middle of the output, the next one hears the rest and the same', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waiting(kit);
    const brain = new OtherBrain(t, kit, type);
    await brain.says('event 3');
    await brain.kill();
    const backend = kit.backend(type);
    const rest = hear(backend, 'job:1', 2);
    go();
    assert.equal((await rest).text, 'b\nc\nrest');
    await assertSameFromEverywhere(backend);
    // And so does one that comes when all is over.
    await assertSameFromEverywhere(kit.backend(type));
    assert.deepEqual(kit.runs(), ['ran']);
  });

  test('while nobody is there the command ends, and its end is kept', async (t) => {
    const kit = new CommandKit(t);
    const { type, go } = waiting(kit);
    const brain = new OtherBrain(t, kit, type);
    await brain.says('accepted');
    await brain.kill();
    go();
    await until(() => fs.existsSync(kit.paths('job:1').exit));
    const backend = kit.backend(type);
    await backend.start();
    assert.equal((await backend.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
    await assertSameFromEverywhere(backend);
  });

  for (const delayMs of [0, 2, 8, 20, 60]) {
    test(`before the acceptance, ${delayMs} ms into the offer: it runs once or never`, async (t) => {
      const kit = new CommandKit(t);
      const type = sh(`echo ran >> ${kit.ledger}`);
      const brain = new OtherBrain(t, kit, type);
      await brain.says('offering');
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      await brain.kill();
      const backend = kit.backend(type);
      const reply = await until(async () => {
        const answer = await backend.kill('job:1', WHO);
        return answer.is === 'stopping' ? undefined : answer;
      });
      // Supervisors that were still to start have found the tombstone, or never got a whole spec.
      await until(() => kit.processes().length === 0);
      assert.ok(kit.runs().length <= (reply.is === 'tombstoned' ? 0 : 1));
      assert.deepEqual(fs.readdirSync(join(kit.folder, 'staging')), []);
    });
  }
});

describe('a supervisor that is killed', () => {
  test('while the command runs: the command is killed, and it may run again', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo a; trap "" TERM; while :; do sleep 1; done'));
    await backend.offer(offerOf('job:1'));
    const heard = hear(backend, 'job:1');
    await until(() => fs.existsSync(kit.paths('job:1').child));
    const child = kit.record<ProcessIdentity>(kit.paths('job:1').child);
    kill(ownerOf(kit).pid, 'SIGKILL');
    const { outcome } = await heard;
    assert.partialDeepStrictEqual(outcome, {
      ok: false,
      error: { code: 'WORKER_UNAVAILABLE', retriable: true },
    });
    assert.equal(isAlive(child), false);
    assert.deepEqual(kit.commands(), []);
    // The same for everybody who asks later.
    assert.deepEqual((await hear(kit.backend(sh('true')), 'job:1')).outcome, outcome);
  });

  test('before it wrote down which process it started: that one is found by its mark', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('setsid sleep 600 & exec sleep 600'));
    await backend.offer(offerOf('job:1'));
    await until(() => kit.commands().length >= 2 && fs.existsSync(kit.paths('job:1').child));
    kill(ownerOf(kit).pid, 'SIGSTOP');
    fs.rmSync(kit.paths('job:1').child);
    kill(ownerOf(kit).pid, 'SIGKILL');
    const other = kit.backend(sh('true'));
    await until(async () => (await other.inspect(['job:1'], WHO)).known.get('job:1')?.is === 'ended');
    assert.deepEqual(kit.commands(), []);
  });

  test('while nobody was there: the next start ends what it left', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('exec sleep 600'));
    await one.offer(offerOf('job:1'));
    await until(() => fs.existsSync(kit.paths('job:1').child));
    const child = kit.record<ProcessIdentity>(kit.paths('job:1').child);
    await one.stop();
    kill(ownerOf(kit).pid, 'SIGKILL');
    await until(() => !isAlive(ownerOf(kit)));
    const two = kit.backend(sh('true'));
    await two.start();
    assert.equal(isAlive(child), false);
    assert.equal((await two.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
  });
});

describe('a pid that is used again', () => {
  /** An execution whose supervisor is said to be another process that lives. */
  async function withOwner(kit: CommandKit, change: Partial<OwnerRecord>): Promise<CommandBackend> {
    const backend = kit.backend(sh('exec sleep 600'));
    await backend.offer(offerOf('job:1'));
    await until(() => fs.existsSync(kit.paths('job:1').child));
    const owner = ownerOf(kit);
    kill(owner.pid, 'SIGKILL');
    await until(() => !isAlive(owner));
    fs.writeFileSync(kit.paths('job:1').owner, JSON.stringify({ ...owner, ...change }));
    return kit.backend(sh('true'));
  }

  test('is not taken for the supervisor, nor killed', async (t) => {
    const kit = new CommandKit(t);
    const bystander = spawn('sleep', ['600'], { detached: true });
    t.after(() => bystander.kill('SIGKILL'));
    // Not begun in the same moment: a start is told apart by its hundredth of a second.
    const backend = await withOwner(kit, { pid: bystander.pid!, start: '1' });
    const { pid, ...rest } = ownerOf(kit);
    fs.writeFileSync(kit.paths('job:1').child, JSON.stringify({ pid, start: '1', boot: rest.boot }));
    const { known } = await backend.inspect(['job:1'], WHO);
    assert.partialDeepStrictEqual(known.get('job:1'), {
      is: 'ended',
      outcome: { ok: false, error: { code: 'WORKER_UNAVAILABLE', retriable: true } },
    });
    assert.equal(bystander.exitCode ?? bystander.signalCode, null);
    assert.ok(fs.existsSync(`/proc/${bystander.pid}`));
  });

  test('is not taken for one of an earlier boot', async (t) => {
    const kit = new CommandKit(t);
    const backend = await withOwner(kit, { ...identityOf(process.pid), boot: 'another' });
    assert.equal((await backend.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
  });

  test('numbers that are no process are never signalled', async (t) => {
    const kit = new CommandKit(t);
    for (const pid of [-1, 0, 1, 1.5, Number.NaN]) {
      assert.equal(isAlive({ pid, start: '', boot: ownBoot() }), false);
    }
    const backend = await withOwner(kit, { pid: -1 });
    assert.equal((await backend.kill('job:1', WHO)).is, 'ended');
  });
});

const ownBoot = (): string => fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

test('a folder whose owner cannot be read is ended, and holds nobody up', async (t) => {
  const kit = new CommandKit(t);
  const one = kit.backend(sh('exec sleep 600'));
  await one.offer(offerOf('job:1'));
  await until(() => fs.existsSync(kit.paths('job:1').child));
  kill(ownerOf(kit).pid, 'SIGKILL');
  fs.writeFileSync(kit.paths('job:1').owner, 'no json');
  const two = kit.backend(sh('true'));
  await two.start();
  assert.equal((await two.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
  assert.deepEqual(kit.commands(), []);
});
