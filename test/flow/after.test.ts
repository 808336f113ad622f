/** Jobs that wait for other jobs, with a real store below them and restarts in between. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { OrchdError } from '../../src/model/errors.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { LASTING, onStores, STORES, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

const FAILURE = { ok: false, error: { code: 'EXECUTION_FAILED', message: 'no', retriable: false } } as const;

async function begin(t: TestContext, data: string, stage: Stage): Promise<Orchestrator> {
  return start(t, { data, backends: [stage] });
}

function stageFor(t: TestContext): Stage {
  const stage = new Stage({ types: ['run'], slots: 100 });
  t.after(() => stage.endAll());
  return stage;
}

const DIAMOND = [
  { job_id: 'top', type: 'run' },
  { job_id: 'left', type: 'run', after: ['top'] },
  { job_id: 'right', type: 'run', after: ['top'] },
  { job_id: 'bottom', type: 'run', after: ['left', 'right'] },
];

const submitAll = async (orchestrator: Orchestrator, jobs: readonly object[]): Promise<void> => {
  const refused = (await orchestrator.submitMany(jobs as never)).filter((each) => each instanceof OrchdError);
  assert.deepEqual(refused, []);
};

const stateOf = async (orchestrator: Orchestrator, id: string): Promise<string> =>
  (await orchestrator.get(id)).state;

/** Waits until ended jobs have left memory. */
async function evicted(orchestrator: Orchestrator): Promise<void> {
  while (engineOf(orchestrator).state.ended.size > 0) await turns(1);
}

describe('a diamond of jobs', () => {
  onStores('runs in its order, with a restart after each of them', LASTING, async (t, data) => {
    const stage = stageFor(t);
    let orchestrator = await begin(t, data, stage);
    await submitAll(orchestrator, DIAMOND);
    for (const level of [['top'], ['left', 'right'], ['bottom']]) {
      await stage.until(() => level.every((id) => stage.started.includes(`${id}:1`)));
      await orchestrator.stop();
      assert.deepEqual(
        stage.runningTokens.sort(),
        level.map((id) => `${id}:1`),
      );
      orchestrator = await begin(t, data, stage);
      for (const id of level) {
        stage.end(`${id}:1`);
        await orchestrator.wait(id);
      }
      await evicted(orchestrator);
    }
    assert.equal(stage.started.length, 4);
    assert.equal(await stateOf(orchestrator, 'bottom'), 'succeeded');
  });

  onStores('stops at a failure in its middle, and goes on after redrives', LASTING, async (t, data) => {
    const stage = stageFor(t);
    let orchestrator = await begin(t, data, stage);
    await submitAll(orchestrator, DIAMOND);
    await stage.startedCount(1);
    stage.end('top:1');
    await stage.startedCount(3);
    stage.end('left:1', FAILURE);
    const bottom = await orchestrator.wait('bottom');
    assert.deepEqual(
      [bottom.state, bottom.reason, bottom.error?.code],
      ['dead', 'dependency', 'DEPENDENCY_FAILED'],
    );
    stage.end('right:1');
    await orchestrator.wait('right');
    await evicted(orchestrator);
    await orchestrator.stop();
    orchestrator = await begin(t, data, stage);
    await assert.rejects(orchestrator.redrive('bottom'), { code: 'ILLEGAL_STATE', message: /"left".*dead/ });
    const outcome = await orchestrator.bulk.redrive({ state: 'dead' }, 'test', 'default');
    assert.deepEqual([outcome.matched, outcome.changed], [2, 2]);
    await stage.startedCount(4);
    assert.deepEqual(stage.runningTokens, ['left:2']);
    stage.end('left:2');
    await stage.startedCount(5);
    stage.end('bottom:1');
    assert.equal((await orchestrator.wait('bottom')).state, 'succeeded');
    assert.deepEqual(stage.started.toSorted(), ['bottom:1', 'left:1', 'left:2', 'right:1', 'top:1']);
  });
});

describe('a job that waits for one that has ended and left memory', () => {
  onStores('runs, dies or is refused as that one has ended', STORES, async (t, data) => {
    const stage = stageFor(t);
    const orchestrator = await begin(t, data, stage);
    await submitAll(orchestrator, [
      { job_id: 'good', type: 'run' },
      { job_id: 'bad', type: 'run' },
    ]);
    await stage.startedCount(2);
    stage.end('good:1');
    stage.end('bad:1', FAILURE);
    for (const id of ['good', 'bad']) await orchestrator.wait(id);
    await evicted(orchestrator);
    await orchestrator.submit({ job_id: 'a', type: 'run', after: ['good'] });
    await stage.startedCount(3);
    await orchestrator.submit({ job_id: 'b', type: 'run', after: ['good', 'bad'] });
    assert.equal((await orchestrator.wait('b')).reason, 'dependency');
    await orchestrator.submit({ job_id: 'c', type: 'run', after: ['bad'], after_policy: 'ended' });
    await stage.startedCount(4);
    await assert.rejects(orchestrator.submit({ job_id: 'd', type: 'run', after: ['none'] }), {
      code: 'ADMISSION_REJECT',
      details: { reason: 'unknown_dependency', field: 'after' },
    });
    await assert.rejects(orchestrator.get('d'), { code: 'NOT_FOUND' });
    stage.endAll();
  });
});
