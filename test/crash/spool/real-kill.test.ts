/**
 * Kills real processes with SIGKILL on a real disk, before every operation that changes it and in the middle of every write:
 * each transaction of a spool, each daemon from its start to its stop, and a watchdog that repairs what this left, at every
 * operation of its own. By default some of the kills of the daemons, with CRASH_ALL=1 all, and those of the transactions;
 * CRASH_ONLY=text takes the scenarios whose name contains it.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Children, eachAtOnce } from '../children.ts';
import { scratchFolder } from '../folders.ts';
import { DAEMONS } from './daemon-scenarios.ts';
import { DiskWorld } from './disk-world.ts';
import { judge, judgeDone, type Stop } from './faults.ts';
import { die, pathsIn, type RealCase } from './real-process.ts';
import { SCENARIOS, type Scenario } from './scenarios.ts';

const takesAll = process.env['CRASH_ALL'] === '1';
const only = process.env['CRASH_ONLY'] ?? '';
const SAMPLE = takesAll ? 1 : 29;
/** Of the kills of a repair, for each kill that it repairs: all for the daemons, which do what the transactions do. */
const repairSample = (scenario: RealScenario): number => {
  if (!takesAll) return 41;
  return 'daemon' in scenario ? 1 : 23;
};
const REPAIR = 'sweep when nothing is to be done';

type RealScenario = Omit<Scenario, 'work'>;
const LISTED: readonly RealScenario[] = takesAll || only !== '' ? [...DAEMONS, ...SCENARIOS] : DAEMONS;
const ALL = LISTED.filter(({ name }) => name.includes(only));

const scratch = scratchFolder('orchd-spool-kill-');
const children = new Children(scratch);
after(() => fs.rmSync(scratch, { recursive: true, force: true }));
let cases = 0;

const newCase = (): RealCase => {
  const folder = join(scratch, `case-${++cases}`);
  return { folder, spool: join(folder, 'spool') };
};

async function prepared({ prepare }: RealScenario): Promise<RealCase> {
  const real = newCase();
  fs.mkdirSync(real.folder);
  await DiskWorld.make(pathsIn(real.folder, real.spool), prepare);
  return real;
}

function copyOf(real: RealCase): RealCase {
  const copy = newCase();
  fs.cpSync(real.folder, copy.folder, { recursive: true });
  return copy;
}

const worldOf = ({ folder, spool }: RealCase): DiskWorld => new DiskWorld(pathsIn(folder, spool));

/** The names of the changes of a scenario; what it does without a kill is right. */
async function changesOf(
  scenario: RealScenario,
  real: RealCase,
  work = scenario.name,
): Promise<readonly string[]> {
  const end = await die(children, real, work, { at: 0 });
  assert.ok('changes' in end);
  const stopped = { world: worldOf(real), where: `${scenario.name}, to its end` };
  if (work === scenario.name) judgeDone(stopped, scenario);
  await judge(stopped, scenario);
  return end.changes;
}

const remove = ({ folder }: RealCase): void => fs.rmSync(folder, { recursive: true, force: true });

/** Every so many changes from a beginning that differs from case to case, so that they spread; a write also by half. */
const stopsOf = (changes: readonly string[], sample: number, seed: number): Stop[] =>
  changes.flatMap((name, n) => {
    if (n % sample !== seed % sample) return [];
    const at = n + 1;
    return name.startsWith('write ') ? [{ at }, { at, isTorn: true }] : [{ at }];
  });

for (const [seed, scenario] of ALL.entries())
  test(`[FARRO-10] really killed at every operation: ${scenario.name}`, async (t) => {
    const whole = await prepared(scenario);
    const changes = await changesOf(scenario, whole);
    remove(whole);
    let [kills, repairs] = [0, 0];
    await eachAtOnce(stopsOf(changes, SAMPLE, seed), async (stop) => {
      const real = await prepared(scenario);
      const died = await die(children, real, scenario.name, stop);
      if (!('where' in died)) return remove(real);
      if (!stop.isTorn) repairs += await killRepair(scenario, real, died.where, stop.at);
      await judge({ world: worldOf(real), where: `${scenario.name}: killed ${died.where}` }, scenario);
      kills++;
      remove(real);
    });
    t.diagnostic(`${changes.length} changes, ${kills} kills, and ${repairs} kills of the repair`);
  });

async function killRepair(
  scenario: RealScenario,
  left: RealCase,
  where: string,
  seed: number,
): Promise<number> {
  const whole = copyOf(left);
  const changes = await changesOf(scenario, whole, REPAIR);
  remove(whole);
  let count = 0;
  for (const stop of stopsOf(changes, repairSample(scenario), seed)) {
    const real = copyOf(left);
    const died = await die(children, real, REPAIR, stop);
    if ('where' in died) {
      const killed = `${scenario.name}: killed ${where}; the repair ${died.where}`;
      await judge({ world: worldOf(real), where: killed }, scenario);
      count++;
    }
    remove(real);
  }
  return count;
}
