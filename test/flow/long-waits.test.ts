/** Many jobs that wait for long: what they go on with leaves memory, and is there when they go on. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { KEPT_STATE_CHARS } from '../../src/runtime/wait-states.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { LASTING, onStores, start, within } from './flow-kit.ts';

/** Together more than the states that stay in memory, each of them small enough for a record. */
const JOBS = 1200;
const KEPT = 'k'.repeat(3900);

const backends = [
  {
    name: 'waits',
    slots: 64,
    repeatable: true,
    types: {
      waits: (_: unknown, { waited, wait, jobId }: FunctionContext) =>
        waited ? waited.state : wait({ state: { of: jobId, kept: KEPT } }),
    },
  },
] as never;

const config = 'orchestrator: {recovery: {sweep_interval_ms: 20}}';

const begin = (t: TestContext, data: string): Promise<Orchestrator> => start(t, { data, backends, config });

const ids = Array.from({ length: JOBS }, (_, n) => `w${n}`);

async function settled(brain: Orchestrator): Promise<void> {
  const { state } = engineOf(brain);
  const isSettled = () => state.counts.waiting === JOBS && state.waitStates.chars <= KEPT_STATE_CHARS;
  while (!isSettled()) await new Promise((resolve) => setTimeout(resolve, 5));
}

onStores('a state that has left memory is there when its job goes on', LASTING, async (t, data) => {
  const brain = await begin(t, data);
  await brain.submitMany(ids.map((job_id) => ({ job_id, type: 'waits', payload: null })));
  await within(settled(brain));
  const states = ids.map((id) => engineOf(brain).state.jobs.get(id)?.job.wait?.state);
  assert.ok(states.some((state) => typeof state === 'object'));
  await brain.stop();
  const again = await begin(t, data);
  await again.checkpoint();
  await again.orders.cancel('w1', 'somebody', 'default');
  for (const id of ['w0', 'w1199']) {
    await again.orders.answer(id, 1, '"go on"', 'default');
    const { state, result } = await within(again.wait(id));
    assert.deepEqual([state, result], ['succeeded', { of: id, kept: KEPT }]);
  }
});
