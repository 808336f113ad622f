/** Metrics are answered also while the brain can commit nothing: that is when somebody looks at them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { Tally } from '../../src/telemetry/tally.ts';
import { memoryBrain } from '../fakes/memory-brain.ts';
import { turns } from './flow-kit.ts';

const metricsOf = (orchestrator: Orchestrator): Metrics =>
  new Metrics(orchestrator, new Tally({ algorithm: 'least-loaded' }));

test('metrics are told by a brain that has failed', async (t) => {
  const { orchestrator, medium } = await memoryBrain(t, {});
  await orchestrator.submit({ job_id: 'one', type: 'nobody-runs-this' });
  // Somebody else has opened the store: the next commit fails for good.
  medium.openings++;
  await assert.rejects(orchestrator.submit({ job_id: 'two', type: 'nobody-runs-this' }));
  assert.ok(orchestrator.failure);
  assert.match(await metricsOf(orchestrator).render(), /^queue_depth /m);
});

test('metrics are told while the disk takes nothing', async (t) => {
  const { orchestrator, hold } = await memoryBrain(t, {});
  const release = hold();
  const submitted = orchestrator.submit({ job_id: 'one', type: 'nobody-runs-this' });
  await turns();
  const told = await Promise.race([metricsOf(orchestrator).render(), turns(5000)]);
  release();
  await submitted;
  assert.match(told ?? 'nothing', /^queue_depth /m);
});
