/**
 * Real power loss: the file system under the brain is shut down at a random instant, with everything that was
 * not synced, and mounted again. POWER_CYCLES sets how often, POWER_SEED at which instants.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Children } from './children.ts';
import { Ext4Image, powerLossMissing } from './ext4-image.ts';
import { type Folders, foldersOf, makeFolders, scratchFolder } from './folders.ts';
import { recoverFully } from './recovering.ts';
import { readAcks } from './script.ts';
import { seededRandom } from './steady-env.ts';

const CYCLES = Number(process.env['POWER_CYCLES'] ?? 12);
const CONTROL_CYCLES = 3;
const SEED = Number(process.env['POWER_SEED'] ?? 1);
const SMALL_SEGMENT = String(16 * 2 ** 10);
const LARGE_SEGMENT = String(4 * 2 ** 20);
const SHORTEST_MS = 20;
const LONGEST_MS = 700;

const scratch = scratchFolder('orchd-power-');
const skip = powerLossMissing(join(scratch, 'try')) ?? false;
let image: Ext4Image | undefined;

after(() => {
  image?.dispose();
  fs.rmSync(scratch, { recursive: true, force: true });
});

describe('power loss', { skip }, () => {
  const random = seededRandom(SEED);
  const children = new Children(scratch);

  test('nothing acknowledged is lost, at whatever instant the power goes', async () => {
    image = new Ext4Image(scratch);
    const problems: string[] = [];
    const acked: number[] = [];
    for (let n = 1; n <= CYCLES; n++) {
      const env = { LOAD_SEGMENT: n % 2 === 0 ? SMALL_SEGMENT : LARGE_SEGMENT };
      const cycle = await cutPower(children, image, `cycle-${n}`, random.next(), env);
      acked.push(cycle.acks);
      problems.push(...cycle.problems.map((problem) => `cycle ${n}, seed ${SEED}: ${problem}`));
    }
    const total = acked.reduce((sum, count) => sum + count, 0);
    const found = `${problems.length} promises broken`;
    console.log(`# ${CYCLES} power losses, ${total} acknowledgements (${acked.join(' ')}), ${found}`);
    assert.deepEqual(problems, []);
    assert.ok(total > CYCLES, 'too little was acknowledged to tell anything');
  });

  test('and the harness would notice: with a lying sync acknowledged jobs are lost, or the start is refused', async () => {
    let lost = 0;
    let refused = 0;
    for (let n = 1; n <= CONTROL_CYCLES; n++) {
      // In one large segment: with several of them the gaps would be seen, and the folder refused.
      const env = { LOAD_LIES: '1', LOAD_SEGMENT: LARGE_SEGMENT };
      const cycle = await cutPower(children, image as Ext4Image, `lie-${n}`, random.next(), env);
      if (cycle.problems.some((problem) => problem.startsWith('lost:'))) lost++;
      // The index of ended jobs was synced: it has seen what the log has lost.
      if (cycle.problems.some((problem) => /the end of the log is missing/.test(problem))) refused++;
    }
    const seen = `${lost} lost acknowledged jobs silently, ${refused} were refused at the start`;
    console.log(`# with a lying sync, of ${CONTROL_CYCLES} power losses ${seen}`);
    assert.ok(lost + refused > 0);
  });
});

interface Cycle {
  readonly acks: number;
  readonly problems: readonly string[];
}

async function cutPower(
  children: Children,
  disk: Ext4Image,
  name: string,
  instant: number,
  env: Record<string, string>,
): Promise<Cycle> {
  disk.mount();
  const folders = makeFolders(foldersOf(join(scratch, name), join(disk.mountPoint, name)));
  const child = spawn(process.execPath, [children.path('load.js'), folders.root, folders.data], {
    stdio: 'ignore',
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  await untilFirstAck(folders);
  await sleep(SHORTEST_MS + instant * (LONGEST_MS - SHORTEST_MS));
  disk.shutdown();
  child.kill('SIGKILL');
  await ended;
  disk.unmount();
  disk.mount();
  const acks = readAcks(folders.acks).length;
  const problems = await recoverFully(folders, Date.now() + 1, { pace: 'real', script: [] }).then(
    (recovery) => recovery.problems,
    (error: Error) => [`it does not open: ${error.message}`],
  );
  fs.rmSync(folders.data, { recursive: true, force: true });
  disk.unmount();
  return { acks, problems };
}

async function untilFirstAck(folders: Folders): Promise<void> {
  for (let tries = 0; readAcks(folders.acks).length === 0; tries++) {
    assert.ok(tries < 3000, 'the child never acknowledges anything');
    await sleep(10);
  }
}
