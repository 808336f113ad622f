/** What is measured is told also when the brain can commit nothing: that is when somebody looks. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runtimeSettings } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { Medium, MemoryStore } from '../../src/stores/memory/memory.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { Tally } from '../../src/telemetry/tally.ts';
import { turns } from './flow-kit.ts';

/** A store that flushes nothing while it is held. */
function holdable(): { store: MemoryStore; hold: () => void; release: () => void } {
  const { timers } = realEnv();
  let held: (() => void)[] | undefined;
  const soon = (run: () => void): void => {
    if (held) held.push(run);
    else timers.soon(run);
  };
  const store = new MemoryStore({ soon, after: (ms, run) => timers.after(ms, run) });
  return {
    store,
    hold: () => {
      held = [];
    },
    release: () => {
      const waiting = held ?? [];
      held = undefined;
      for (const run of waiting) run();
    },
  };
}

async function brain(store: MemoryStore): Promise<{ orchestrator: Orchestrator; metrics: Metrics }> {
  const settings = runtimeSettings(loadConfig({ text: '' }));
  const orchestrator = new Orchestrator({ env: realEnv(), store, backends: [], settings });
  await orchestrator.start();
  return { orchestrator, metrics: new Metrics(orchestrator, new Tally({ algorithm: 'least-loaded' })) };
}

test('metrics are told by a brain that has failed', async (t) => {
  const medium = new Medium();
  const { orchestrator, metrics } = await brain(new MemoryStore(realEnv().timers, medium));
  t.after(() => orchestrator.stop());
  await orchestrator.submit({ job_id: 'one', type: 'nobody-runs-this' });
  // Somebody else has opened the store: the next commit fails for good.
  medium.openings++;
  await assert.rejects(orchestrator.submit({ job_id: 'two', type: 'nobody-runs-this' }));
  assert.ok(orchestrator.failure);
  assert.match(await metrics.render(), /^queue_depth /m);
});

test('metrics are told while the disk takes nothing', async (t) => {
  const { store, hold, release } = holdable();
  const { orchestrator, metrics } = await brain(store);
  t.after(() => orchestrator.stop());
  hold();
  const submitted = orchestrator.submit({ job_id: 'one', type: 'nobody-runs-this' });
  await turns();
  const told = await Promise.race([metrics.render(), turns(200)]);
  release();
  await submitted;
  assert.match(told ?? 'nothing', /^queue_depth /m);
});
