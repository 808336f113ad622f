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

test('an end is reported once, after it is durable; a redriven job ends again', async (t) => {
  const { orchestrator, medium } = await memoryBrain(t, { backends: [backend()] });
  const reported: JobEnd[] = [];
  const stop = orchestrator.ends.subscribe((end) => {
    const last = medium.changes.findLast(({ kind, id }) => kind === 'job' && id === end.uid);
    assert.equal(
      (last?.after as { state: string } | undefined)?.state,
      end.state,
      'the end is on the medium',
    );
    reported.push(end);
  });
  // A listener that throws affects neither the commit nor other listeners.
  orchestrator.ends.subscribe(() => {
    throw new Error('a defect of the listener');
  });
  await orchestrator.submit({ job_id: 'a', type: 'work' });
  await orchestrator.wait('a');
  await orchestrator.submit({ job_id: 'b', type: 'fail', max_tries: 1 });
  await orchestrator.wait('b');
  await orchestrator.submit({ job_id: 'c', type: 'nobody' });
  await orchestrator.cancel('c');
  assert.deepEqual(
    reported.map(({ uid, state, reason }) => [uid, state, reason]),
    [
      ['a', 'succeeded', undefined],
      ['b', 'dead', 'failed'],
      ['c', 'cancelled', undefined],
    ],
  );
  assert.ok(reported.every(({ endedAt }) => endedAt > 0));
  await orchestrator.redrive('b');
  await orchestrator.wait('b');
  assert.equal(reported.filter(({ uid }) => uid === 'b').length, 2);
  stop();
  await orchestrator.submit({ job_id: 'd', type: 'work' });
  await orchestrator.wait('d');
  assert.equal(reported.at(-1)?.uid, 'b', 'a cancelled subscription receives nothing');
});
