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
    assert.deepEqual((await read).outcome, {
      ok: true,
      resultText: JSON.stringify({ text: 'a\nb\nc\nrest', exit_code: 0 }),
    });
    await assertSameFromEverywhere(backend);
    assert.deepEqual(kit.runs(), ['ran']);
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
      // A supervisor that starts late finds the tombstone, or got only half of its spec.
      await until(() => kit.processes().length === 0);
      assert.ok(kit.runs().length <= (reply.is === 'tombstoned' ? 0 : 1));
      assert.deepEqual(fs.readdirSync(join(kit.folder, 'staging')), []);
    });
  }
});

describe('a supervisor that is killed', () => {
  test('while the command runs: the command is killed, and its outcome is unknown', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo a; trap "" TERM; while :; do sleep 1; done'));
    await backend.offer(offerOf('job:1'));
    const read = hear(backend, 'job:1');
    await until(() => fs.existsSync(kit.paths('job:1').child));
    const child = kit.record<ProcessIdentity>(kit.paths('job:1').child);
    kill(ownerOf(kit).pid, 'SIGKILL');
    const { outcome } = await read;
    assert.equal(outcome, 'forgotten');
    assert.equal(isAlive(child), false);
    assert.deepEqual(kit.commands(), []);
    // A later reader gets the same outcome.
    assert.deepEqual((await hear(kit.backend(sh('true')), 'job:1')).outcome, outcome);
  });

  test('before it wrote child.json: the command is found by the mark in its environment', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('setsid sleep 600 & exec sleep 600'));
    await backend.offer(offerOf('job:1'));
    await until(() => kit.commands().length >= 2 && fs.existsSync(kit.paths('job:1').child));
    kill(ownerOf(kit).pid, 'SIGSTOP');
    fs.rmSync(kit.paths('job:1').child);
    kill(ownerOf(kit).pid, 'SIGKILL');
    const other = kit.backend(sh('true'));
    await until(async () => (await other.inspect(['job:1'], WHO)).known.get('job:1')?.is === 'forgotten');
    assert.deepEqual(kit.commands(), []);
  });

  test('while no brain was running: the next start kills the command', async (t) => {
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
    assert.equal((await two.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'forgotten');
  });
});

describe('a reused pid', () => {
  /** A backend over an execution whose supervisor is dead and whose owner.json has been changed. */
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
    // The start time differs: a process is identified by its pid and its start in hundredths of a second.
    const backend = await withOwner(kit, { pid: bystander.pid!, start: '1' });
    const { pid, ...rest } = ownerOf(kit);
    fs.writeFileSync(kit.paths('job:1').child, JSON.stringify({ pid, start: '1', boot: rest.boot }));
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

const ownBoot = (): string => fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

test('an execution whose owner.json cannot be read is ended at the next start', async (t) => {
  const kit = new CommandKit(t);
  const one = kit.backend(sh('exec sleep 600'));
  await one.offer(offerOf('job:1'));
  await until(() => fs.existsSync(kit.paths('job:1').child));
  kill(ownerOf(kit).pid, 'SIGKILL');
  fs.writeFileSync(kit.paths('job:1').owner, 'no json');
  const two = kit.backend(sh('true'));
  await two.start();
  assert.equal((await two.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'forgotten');
  assert.deepEqual(kit.commands(), []);
});

describe('a copied folder', () => {
  /** A command that runs, and a copy of its backend's folder. */
  async function withCopy(
    t: TestContext,
  ): Promise<{ kit: CommandKit; child: ProcessIdentity; copy: string }> {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('exec sleep 600'));
    await backend.start();
    await backend.offer(offerOf('job:1'));
    await until(() => fs.existsSync(kit.paths('job:1').child));
    const child = kit.record<ProcessIdentity>(kit.paths('job:1').child);
    const copy = join(kit.root, 'copy');
    fs.cpSync(kit.folder, copy, { recursive: true, preserveTimestamps: true });
    return { kit, child, copy };
  }

  test('is refused, and nothing of the original is touched', async (t) => {
    const { kit, child, copy } = await withCopy(t);
    const backend = kit.backend(sh('true'), { folder: copy });
    await assert.rejects(backend.start(), { code: 'FOLDER_COPIED' });
    await assert.rejects(backend.kill('job:1', WHO), { code: 'FOLDER_COPIED' });
    assert.ok(isAlive(child) && isAlive(ownerOf(kit)));
  });

  test('that is said to be one begins anew: it knows nothing of the original, and ends nothing of it', async (t) => {
    const { kit, child, copy } = await withCopy(t);
    const [original] = [kit.record<{ id: string }>(join(kit.folder, 'registry.json'))];
    const backend = kit.backend(sh('true'), { folder: copy, isCopy: true, slots: 1 });
    await backend.start();
    assert.notEqual(backend.info.registry, original.id);
    const { known } = await backend.inspect(['job:1'], { owner: 'copy', epoch: 1 });
    assert.equal(known.size, 0);
    assert.deepEqual(await backend.offer({ ...offerOf('job:1'), owner: 'copy' }), { is: 'accepted' });
    await until(
      async () =>
        (await backend.inspect(['job:1'], { owner: 'copy', epoch: 1 })).known.get('job:1')?.is === 'ended',
    );
    assert.ok(isAlive(child) && isAlive(ownerOf(kit)));
    // The next start needs no word about it.
    await backend.stop();
    await kit.backend(sh('true'), { folder: copy }).start();
  });

  test('is not taken for one because it was moved on the same disk', async (t) => {
    const { kit, copy } = await withCopy(t);
    const moved = join(kit.root, 'moved');
    await kit.backend(sh('true'), { folder: copy, isCopy: true }).start();
    fs.renameSync(copy, moved);
    await kit.backend(sh('true'), { folder: moved }).start();
  });
});
