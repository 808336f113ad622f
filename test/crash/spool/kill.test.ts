/**
 * Kills a process before every operation that changes the disk and in the middle of every write, and a watchdog that
 * repairs what this left at every operation of its own. A kill at an operation that only looks leaves the same disk as one
 * at the next change.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changesOf, judge, killed, stopped } from './faults.ts';
import { SCENARIOS, type Scenario, sweep } from './scenarios.ts';

const takesAll = process.env['CRASH_ALL'] === '1';
/** By default the repair is killed after one in so many of the first kills. */
const STRIDE = takesAll ? 1 : 4;
/** Of the kills of such a repair, one in so many is tried. */
const SAMPLE = takesAll ? 1 : 23;

for (const scenario of SCENARIOS) {
  test(`[FARRO-10] killed at every operation: ${scenario.name}`, async (t) => {
    const once = await killOnce(scenario);
    const twice = await killTwice(scenario);
    t.diagnostic(`${once} kills, and ${twice} kills of the repair`);
    assert.ok(once > 0 && twice > 0);
  });
}

async function killOnce(scenario: Scenario): Promise<number> {
  let count = 0;
  for (const isTorn of [false, true])
    for (let at = 1; ; at++) {
      const found = await stopped(scenario, { at, isTorn });
      if (!found) break;
      if (isTorn && !found.where.includes('in the middle of')) continue;
      await judge(found, scenario);
      count++;
    }
  return count;
}

async function killTwice(scenario: Scenario): Promise<number> {
  let count = 0;
  for (let at = 1; ; at += STRIDE) {
    const first = await stopped(scenario, { at });
    if (!first) return count;
    const changes = await changesOf(first.world, sweep);
    for (let second = 1 + (at % SAMPLE); second <= changes; second += SAMPLE) {
      const again = await stopped(scenario, { at });
      if (!again) break;
      const where = await killed(again.world, sweep, { at: second });
      await judge({ world: again.world, where: `${again.where}; the repair ${where}` }, scenario);
      count++;
    }
  }
}
