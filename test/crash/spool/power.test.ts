/** Cuts the power before every operation that changes the disk: of what was not synced, all is lost, nothing, or some. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Chance } from '../../fakes/sim-file.ts';
import { SeededRandom } from '../../fakes/world.ts';
import { judge, judgeDone, unpowered } from './faults.ts';
import { SCENARIOS } from './scenarios.ts';

const SEEDS = process.env['CRASH_ALL'] === '1' ? 40 : 1;

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
    for (const { name, chance } of CHOICES)
      for (let at = 1; ; at++) {
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
