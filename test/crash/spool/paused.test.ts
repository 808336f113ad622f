/**
 * A process that nobody can ask for is stopped before one of its operations, taken for dead, and goes on when everybody
 * else has done all there was to do. It changes nothing of that.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diskErrorCode } from '../../../src/kit/env/env.ts';
import { problemsAtTheEnd, problemsNow } from './recovery.ts';
import { JOB, SCENARIOS, type Scenario } from './scenarios.ts';
import { preparedWorld, type SimProcess, type SpoolWorld } from './world.ts';

for (const scenario of SCENARIOS) {
  test(`paused at every operation, taken for dead, and back: ${scenario.name}`, async (t) => {
    let count = 0;
    for (let at = 1; ; at++) {
      const world = await preparedWorld(scenario.prepare);
      const paused = world.process({ isForeign: true });
      await paused.begin(scenario.work);
      await paused.runUntil(at);
      const next = paused.waiting[0];
      if (paused.isDone || !next) break;
      await judge(world, paused, scenario, `${scenario.name}: paused before ${next.name} (${at})`);
      count++;
    }
    t.diagnostic(`${count} pauses`);
    assert.ok(count > 0);
  });
}

async function judge(
  world: SpoolWorld,
  paused: SimProcess,
  { isNew }: Scenario,
  where: string,
): Promise<void> {
  const isThere = (): boolean =>
    [...world.tree.walk()].some(({ path }) => /\/(incoming|in-progress|completed|jobs)\/.*job$/.test(path));
  const jobs = (): string[] => (isNew && !isThere() ? [] : [JOB]);
  assert.deepEqual(
    await problemsAtTheEnd(world, jobs()),
    [],
    `${where}, before it is back\n${world.listing()}`,
  );
  await paused.runUntil().catch((error: unknown) => {
    // It finds its folders gone.
    if (diskErrorCode(error) !== 'ENOENT') throw new Error(`${where}: ${error}`, { cause: error });
  });
  assert.deepEqual(await problemsNow(world), [], `${where}, back\n${world.listing()}`);
  paused.kill();
  assert.deepEqual(await problemsAtTheEnd(world, jobs()), [], `${where}, at the end\n${world.listing()}`);
}
