/**
 * Paid commands over power cuts and killed keepers and wrappers: an outside ledger counts how often each job was begun.
 * PAID_CYCLES sets how often the power is cut, PAID_KILLS how often processes are killed, POWER_SEED at which instants.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ext4Image, powerLossMissing } from './ext4-image.ts';
import { scratchFolder } from './folders.ts';
import { seededRandom } from './steady-env.ts';

const MAIN = join(import.meta.dirname, 'paid-commands-main.ts');
const CYCLES = Number(process.env['PAID_CYCLES'] ?? 4);
const KILLS = Number(process.env['PAID_KILLS'] ?? 4);
const SEED = Number(process.env['POWER_SEED'] ?? 1);
const SHORTEST_MS = 100;
const LONGEST_MS = 900;

const scratch = scratchFolder('orchd-paid-');
const noPower = powerLossMissing(join(scratch, 'try')) ?? false;
let image: Ext4Image | undefined;
after(() => {
  killAll(scratch);
  image?.dispose();
  fs.rmSync(scratch, { recursive: true, force: true });
});

const random = seededRandom(SEED);
const someTime = (): Promise<void> => sleep(SHORTEST_MS + random.next() * (LONGEST_MS - SHORTEST_MS));

/** The processes that work below a folder, or were started by one of ours: the brain, keepers, wrappers and commands. */
function processesOf(folder: string): number[] {
  return fs.readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      const text = fs.readFileSync(`/proc/${name}/environ`, 'latin1') + fs.readlinkSync(`/proc/${name}/cwd`);
      return text.includes(folder) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

function killAll(folder: string, which: (pid: number) => boolean = () => true): number {
  const pids = processesOf(folder).filter(which);
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It had ended before the signal.
    }
  }
  return pids.length;
}

async function untilGone(folder: string): Promise<void> {
  while (killAll(folder) > 0) await sleep(10);
}

class Ledger {
  readonly path: string;
  readonly acks: string;

  constructor(name: string) {
    this.path = join(scratch, `${name}.ledger`);
    this.acks = join(scratch, `${name}.acks`);
    for (const file of [this.path, this.acks]) fs.writeFileSync(file, '');
  }

  /** Jobs that were begun more than once. */
  twice(): string[] {
    const begun = this.#lines(this.path).filter((line) => line.startsWith('start '));
    return [...new Set(begun.filter((line, at) => begun.indexOf(line) !== at))];
  }

  /** Whether the command of this job did all of its work. */
  isDone(id: string): boolean {
    return this.#lines(this.path).includes(`end ${JSON.stringify(id)}`);
  }

  /** The lines about these jobs, and those that name no job. */
  about(ids: readonly string[]): string {
    const names = ['""', ...ids.map((id) => JSON.stringify(id))];
    const lines = this.#lines(this.path).filter(
      (line) => names.some((name) => line.includes(name)) || !line.includes('"'),
    );
    return lines.join('\n');
  }

  get acknowledged(): number {
    return this.#lines(this.acks).length;
  }

  get begun(): number {
    return this.#lines(this.path).filter((line) => line.startsWith('start ')).length;
  }

  #lines(path: string): string[] {
    return fs.readFileSync(path, 'utf8').split('\n').slice(0, -1);
  }
}

async function startBrain(folder: string, ledger: Ledger, name: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [MAIN, folder, ledger.path, ledger.acks, name], {
    stdio: ['ignore', 'pipe', 'inherit'],
    // The folder in the environment is how the brain is found among the processes.
    env: { ...process.env, NODE_OPTIONS: '', PAID_FOLDER: folder },
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve());
    child.once('exit', () => reject(new Error(`the brain of ${name} did not start`)));
  });
  return child;
}

/** A last life, in which every acknowledged job comes to an end: none is missing, and none succeeds without its work. */
async function checkEnds(folder: string, ledger: Ledger): Promise<void> {
  const child = await startBrain(folder, ledger, '');
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  await once(child, 'close');
  const ends = JSON.parse(text) as [id: string, state: string][];
  assert.equal(ends.length, ledger.acknowledged);
  const wrong = ends.filter(
    ([id, state]) => state !== 'dead' && !(state === 'succeeded' && ledger.isDone(id)),
  );
  assert.deepEqual(wrong, [], `${JSON.stringify(wrong)}\n${ledger.about(wrong.map(([id]) => id))}`);
  const succeeded = ends.filter(([, state]) => state === 'succeeded').length;
  console.log(`# ${succeeded} succeeded, ${ends.length - succeeded} with an outcome that nobody knows`);
  assert.ok(succeeded > 0);
  assert.deepEqual(ledger.twice(), []);
}

test('no paid work is begun twice or lost, at whatever instant the power goes', {
  skip: noPower,
}, async () => {
  const ledger = new Ledger('power');
  image = new Ext4Image(scratch);
  for (let n = 1; n <= CYCLES; n++) {
    image.mount();
    const folder = join(image.mountPoint, 'paid');
    fs.mkdirSync(folder, { recursive: true });
    await startBrain(folder, ledger, `power-${n}`);
    const before = ledger.begun;
    while (ledger.begun === before) await sleep(5);
    await someTime();
    image.shutdown();
    await untilGone(scratch);
    await image.unmountWhenFree();
  }
  console.log(`# ${CYCLES} power cuts, ${ledger.acknowledged} acknowledged paid jobs, ${ledger.begun} begun`);
  assert.deepEqual(ledger.twice(), []);
  assert.ok(ledger.begun >= CYCLES);
  image.mount();
  await checkEnds(join(image.mountPoint, 'paid'), ledger);
  await untilGone(scratch);
  await image.unmountWhenFree();
});

test('no paid work is begun twice or lost when keepers, wrappers and brains are killed', async () => {
  const ledger = new Ledger('kills');
  const folder = join(scratch, 'kills');
  fs.mkdirSync(folder);
  for (let n = 1; n <= KILLS; n++) {
    const brain = await startBrain(folder, ledger, `kill-${n}`);
    const before = ledger.begun;
    while (ledger.begun === before) await sleep(5);
    // First some of the keepers, wrappers and commands, then all that is left.
    for (let volley = 0; volley < 4; volley++) {
      await someTime();
      killAll(folder, (pid) => pid !== brain.pid && random.next() < 0.5);
    }
    await untilGone(folder);
  }
  console.log(`# ${KILLS} lives, ${ledger.acknowledged} acknowledged paid jobs, ${ledger.begun} begun`);
  assert.deepEqual(ledger.twice(), []);
  assert.ok(ledger.begun >= KILLS);
  await checkEnds(folder, ledger);
});
