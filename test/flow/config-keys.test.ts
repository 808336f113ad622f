/**
 * What the original keys of the configuration do, by default and when they are set. `failure_cache_ttl` is in
 * failure-cache.test.ts, `orphan_reconciliation` in src/runtime/reconciliation.test.ts, `pool.url` in
 * src/config/gateway.test.ts and gateway-source.test.ts.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { createOrchestrator } from '../../src/index.ts';
import type { Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { start, tempFolder, turns } from './flow-kit.ts';
import { fakeGateway, sourceOf } from './gateway-kit.ts';
import { Stage } from './stage.ts';
import { VirtualEnv } from './virtual-env.ts';

test('[FANO-11] checkpoint_dir: the data is in data/orchestrator of the working folder, or where it says', async (t) => {
  const before = process.cwd();
  t.after(() => process.chdir(before));
  const folder = dirname(tempFolder(t));
  process.chdir(folder);
  await (await start(t, { backends: [] })).stop();
  assert.ok(existsSync(join(folder, 'data', 'orchestrator', 'log')));
  const config = 'orchestrator: { state: { checkpoint_dir: elsewhere } }';
  await (await start(t, { backends: [], config })).stop();
  assert.ok(existsSync(join(folder, 'elsewhere', 'log')));
});

/** The tests take a second; a promise that is broken would be waited for without end. */
const LIMIT = { timeout: 60_000 };
/** Longer waits of a brain happen when the test says so. */
const SHORT_MS = 1000;

for (const [seconds, config] of [
  [60, ''],
  [7, 'orchestrator: { state: { checkpoint_interval: 7 } }'],
] as const) {
  test(
    `[FANO-11] checkpoint_interval: what has changed is in a checkpoint after ${seconds} s`,
    LIMIT,
    async (t) => {
      const real = realEnv();
      const waits: { readonly ms: number; readonly run: () => void }[] = [];
      const after: Timers['after'] = (ms, run) => {
        if (ms < SHORT_MS) return real.timers.after(ms, run);
        waits.push({ ms, run });
        return () => undefined;
      };
      const env = { ...real, timers: { ...real.timers, after } };
      const data = tempFolder(t);
      const brain = await start(t, { data, backends: [], env, config });
      // With less in the log a checkpoint is not worth its writes.
      const job = { payload: 'x'.repeat(4000), labels: { nobody: 'has it' } };
      await brain.submitMany(Array.from({ length: 300 }, () => job));
      const hasCheckpoint = (): boolean => existsSync(join(data, 'checkpoint.json'));
      assert.ok(!hasCheckpoint());
      for (const { ms, run } of waits.splice(0)) if (ms === seconds * 1000) run();
      // A thread writes it.
      while (!hasCheckpoint()) await turns(1);
    },
  );
}

for (const [pauseMs, config] of [
  [1000, ''],
  [5000, 'orchestrator: { scheduler: { jit_poll_interval: 5 } }'],
] as const) {
  test(
    `[FANO-11] jit_poll_interval: a busy backend that names no time is tried again after ${pauseMs} ms`,
    LIMIT,
    async (t) => {
      const time = new VirtualEnv();
      const stage = new Stage();
      const options = { data: 'memory', backends: [stage], env: time.env(), config };
      const brain = await time.until(createOrchestrator(options));
      t.after(() => time.until(brain.stop()));
      const triedAt: number[] = [];
      stage.answer = () => {
        triedAt.push(time.now);
        return { is: 'busy' };
      };
      await time.until(brain.submit({}));
      while (triedAt.length < 3 && !t.signal.aborted) await time.pass(1);
      const [first = 0, second = 0, third = 0] = triedAt;
      for (const pause of [second - first, third - second])
        assert.ok(pause >= pauseMs && pause < pauseMs + 100, `${pause} ms`);
    },
  );
}

for (const [seconds, pool] of [
  [3600, {}],
  [7, { timeout: 7 }],
] as const) {
  test(`[FANO-11] pool.url and pool.timeout: the gateway there is used, and a request has ${seconds} s`, async (t) => {
    const gateway = await fakeGateway(t, { a: { models: ['m'], slots: 1 } });
    gateway.answersAtOnce = true;
    const { source } = sourceOf(t, { config: { pool: { url: gateway.url, ...pool } } });
    const brain = await start(t, { data: 'memory', backends: [], sources: [source] });
    await source.firstReports();
    const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'Hello' });
    assert.equal((await brain.wait(id)).state, 'succeeded');
    const submit = gateway.calls.find(({ path }) => path === '/submit_immediate');
    assert.equal(JSON.parse(submit?.body ?? '{}').timeout_ms, seconds * 1000);
  });
}
