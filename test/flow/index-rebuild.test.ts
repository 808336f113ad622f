/** An index of ended jobs that is made again while the clock is wrong holds every job that was not purged. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isHeld } from '../../src/cli/lock-probe.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { examine } from '../../src/stores/journal/doctor/doctor.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { start, tempFolder } from './flow-kit.ts';

const DAY = 24 * 3_600_000;
const IDS = ['a', 'b', 'c'];
const LARGE = 'x'.repeat(10_000);

const envAhead = (byMs: number): Env => {
  const env = realEnv();
  const { clock } = env;
  return { ...env, clock: { now: () => clock.now() + byMs, monotonic: () => clock.monotonic() } };
};

const runs: string[] = [];
const backends = [
  {
    name: 'local',
    types: {
      work: (payload: unknown) => {
        runs.push(String(payload));
        return LARGE;
      },
    },
  },
];

for (const [how, harm] of Object.entries({
  missing: (file: string) => rmSync(file),
  damaged: (file: string) => writeFileSync(file, 'garbage'.repeat(2000)),
})) {
  test(`an index that is ${how} at a start with a clock that is ahead by 30 days loses no job, and no job runs again`, async (t) => {
    const data = tempFolder(t);
    runs.length = 0;
    const first = await start(t, { data, backends });
    for (const id of IDS) {
      await first.submit({ job_id: id, type: 'work', payload: id });
      await first.wait(id);
    }
    while (engineOf(first).state.jobs.size > 0) await new Promise((resolve) => setImmediate(resolve));
    // The checkpoint leaves out what the index holds.
    await first.checkpoint();
    await first.stop();
    for (const name of readdirSync(data).filter((each) => each.startsWith('history.sqlite')))
      if (name === 'history.sqlite') harm(join(data, name));
      else rmSync(join(data, name));
    for (const byMs of [30 * DAY, 30 * DAY, 0]) {
      const brain = await start(t, { data, backends, env: envAhead(byMs) });
      for (const id of IDS) assert.equal((await brain.get(id)).result, LARGE, `${id}, ahead by ${byMs}`);
      await brain.submit({ job_id: 'a', type: 'work', payload: 'a' });
      assert.equal((await brain.get('a')).state, 'succeeded');
      await brain.stop();
      if (byMs > 0 && how === 'missing') rmSync(join(data, 'history.sqlite'));
    }
    assert.deepEqual(runs, IDS);
    assert.ok(existsSync(join(data, 'history.sqlite')));
    const { findings } = await examine(realEnv().disk, data, { isHeld });
    assert.deepEqual(
      findings.filter(({ verdict }) => verdict !== 'ok'),
      [],
    );
  });
}
