/**
 * Real power loss: a process works on a spool on an ext4 file system, dies before one of its changes of the disk, and the
 * file system loses everything that was not synced by then. Some of the instants by default, all with CRASH_ALL=1;
 * CRASH_ONLY=text takes the scenarios whose name contains it.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Children } from '../children.ts';
import { Ext4Image, powerLossMissing } from '../ext4-image.ts';
import { scratchFolder } from '../folders.ts';
import { DAEMONS } from './daemon-scenarios.ts';
import { DiskWorld } from './disk-world.ts';
import { judge, judgeDone } from './faults.ts';
import { type Died, die, pathsIn, type RealCase } from './real-process.ts';
import { SCENARIOS, type Scenario } from './scenarios.ts';

const takesAll = process.env['CRASH_ALL'] === '1';
const only = process.env['CRASH_ONLY'] ?? '';
/** By default: of all instants one in so many. */
const SAMPLE = takesAll ? 1 : 19;

type RealScenario = Omit<Scenario, 'work'>;
const DEFAULT = [
  'agent: a job succeeds',
  'watchdog: a job that has a result',
  'manager: a stale job',
  'drop',
];
const ALL: readonly RealScenario[] = [...DAEMONS, ...SCENARIOS].filter(({ name }) =>
  only === '' ? takesAll || DEFAULT.includes(name) : name.includes(only),
);

const scratch = scratchFolder('orchd-spool-power-');
const skip = powerLossMissing(join(scratch, 'try')) ?? false;
let image: Ext4Image | undefined;
after(() => {
  image?.dispose();
  fs.rmSync(scratch, { recursive: true, force: true });
});

describe('power loss under a spool', { skip }, () => {
  const children = new Children(scratch);
  const disk = new Ext4Image(scratch);
  image = disk;
  let cases = 0;

  /** Lets a scenario come to one of its changes, or to its end, cuts the power, and switches the machine on again. */
  async function cut(
    scenario: RealScenario,
    at: number,
  ): Promise<{ died: Died; world: DiskWorld; real: RealCase }> {
    const folder = join(scratch, `case-${++cases}`);
    const real = { folder, spool: join(disk.mountPoint, `spool-${cases}`) };
    fs.mkdirSync(folder);
    disk.mount();
    await DiskWorld.make(pathsIn(folder, real.spool), scenario.prepare);
    const died = await die(children, real, scenario.name, { at });
    disk.shutdown();
    await disk.unmountWhenFree();
    disk.mount();
    const world = new DiskWorld(pathsIn(folder, real.spool), { isRestarted: true });
    world.ledger.onPowerCut(world.tree);
    return { died, world, real };
  }

  async function end({ folder, spool }: RealCase): Promise<void> {
    fs.rmSync(spool, { recursive: true, force: true });
    fs.rmSync(folder, { recursive: true, force: true });
    await disk.unmountWhenFree();
  }

  for (const [seed, scenario] of ALL.entries())
    test(`[FARRO-10] power cut at every operation: ${scenario.name}`, async (t) => {
      const whole = await cut(scenario, 0);
      assert.ok('changes' in whole.died);
      const { length } = whole.died.changes;
      const done = { world: whole.world, where: `${scenario.name}: power cut at the end` };
      judgeDone(done, scenario);
      await judge(done, scenario);
      await end(whole.real);
      let count = 1;
      for (let at = 1 + (seed % SAMPLE); at <= length; at += SAMPLE) {
        const { died, world, real } = await cut(scenario, at);
        if ('where' in died) {
          await judge({ world, where: `${scenario.name}: power cut ${died.where}` }, scenario);
          count++;
        }
        await end(real);
      }
      t.diagnostic(`${count} power cuts`);
    });
});
