import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBrain } from '../../test/fakes/memory-brain.ts';
import { FunctionBackend } from '../backends/local/functions.ts';
import { realEnv } from '../kit/env/real.ts';
import type { JobEnd } from './job-ends.ts';

const backend = (): FunctionBackend =>
  new FunctionBackend(realEnv(), {
    name: 'local',
    types: {
      work: async () => 'done',
      fail: async () => {
        throw new Error('no');
      },
    },
  });

test('an end is told once, after it is durable, and a redriven job ends again', async (t) => {
  const { orchestrator, medium } = await memoryBrain(t, { backends: [backend()] });
  const told: JobEnd[] = [];
  const stop = orchestrator.ends.subscribe((end) => {
    const last = medium.changes.findLast(({ kind, id }) => kind === 'job' && id === end.uid);
    assert.equal(
      (last?.after as { state: string } | undefined)?.state,
      end.state,
      'the end is on the medium',
    );
    told.push(end);
  });
  // One that throws harms neither the commit nor the others.
  orchestrator.ends.subscribe(() => {
    throw new Error('a defect of its own');
  });
  await orchestrator.submit({ job_id: 'a', type: 'work' });
  await orchestrator.wait('a');
  await orchestrator.submit({ job_id: 'b', type: 'fail', max_tries: 1 });
  await orchestrator.wait('b');
  await orchestrator.submit({ job_id: 'c', type: 'nobody' });
  await orchestrator.cancel('c');
  assert.deepEqual(
    told.map(({ uid, state, reason }) => [uid, state, reason]),
    [
      ['a', 'succeeded', undefined],
      ['b', 'dead', 'failed'],
      ['c', 'cancelled', undefined],
    ],
  );
  assert.ok(told.every(({ endedAt }) => endedAt > 0));
  await orchestrator.redrive('b');
  await orchestrator.wait('b');
  assert.equal(told.filter(({ uid }) => uid === 'b').length, 2);
  stop();
  await orchestrator.submit({ job_id: 'd', type: 'work' });
  await orchestrator.wait('d');
  assert.equal(told.at(-1)?.uid, 'b', 'who has left hears nothing');
});
