/**
 * Cuts the power before every operation that changes the disk: of what was not synced, all is lost, nothing, or some. By
 * default each of the three takes every third operation, so that together they take all; `CRASH_ALL=1` takes all for each.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Chance } from '../../fakes/sim-file.ts';
import { SeededRandom } from '../../fakes/world.ts';
import { judge, judgeDone, unpowered } from './faults.ts';
import { SCENARIOS } from './scenarios.ts';

const takesAll = process.env['CRASH_ALL'] === '1';
const SEEDS = takesAll ? 40 : 1;

const CHOICES: readonly { readonly name: string; readonly chance: () => Chance }[] = [
  { name: 'all is lost', chance: () => () => false },
  { name: 'nothing is lost', chance: () => () => true },
  ...Array.from({ length: SEEDS }, (_, seed) => ({
    name: `seed ${seed}`,
    chance: (): Chance => {
      const random = new SeededRandom(seed);
      return (probability) => random.chance(probability);
    },
  })),
];

for (const scenario of SCENARIOS) {
  test(`power cut at every operation: ${scenario.name}`, async (t) => {
    let count = 0;
    for (const [choice, { name, chance }] of CHOICES.entries())
      for (let at = takesAll ? 1 : 1 + choice; ; at += takesAll ? 1 : CHOICES.length) {
        const found = await unpowered(scenario, at, chance());
        const stopped = { ...found, where: `${found.where}, ${name}` };
        if (found.isDone) judgeDone(stopped, scenario);
        await judge(stopped, scenario);
        count++;
        if (found.isDone) break;
      }
    t.diagnostic(`${count} power cuts`);
    assert.ok(count > 0);
  });
}
