/** Batches: counts that survive restarts and purges, results in order, and commands by filter. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { BatchResult } from '../../src/runtime/batches.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { LASTING, onStores, STORES, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

const FAILURE = { ok: false, error: { code: 'EXECUTION_FAILED', message: 'no', retriable: false } } as const;

function stageFor(t: TestContext, slots = 1000): Stage {
  const stage = new Stage({ types: ['run'], slots });
  t.after(() => stage.endAll());
  return stage;
}

async function submit(
  orchestrator: Orchestrator,
  batch: string,
  count: number,
  fields: object = {},
): Promise<void> {
  const jobs = Array.from({ length: count }, (_, n) => ({
    job_id: `${batch}.${n}`,
    type: 'run',
    batch,
    ...fields,
  }));
  await orchestrator.submitMany(jobs);
}

/** The counts that are not 0. */
async function countsOf(orchestrator: Orchestrator, id: string): Promise<object> {
  const { counts } = await orchestrator.batches.get(id);
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

async function resultsOf(orchestrator: Orchestrator, id: string, options = {}): Promise<BatchResult[]> {
  const all: BatchResult[] = [];
  for await (const page of orchestrator.batches.results(id, 'default', options)) all.push(...page);
  return all;
}

async function evicted(orchestrator: Orchestrator): Promise<void> {
  while (engineOf(orchestrator).state.ended.size > 0) await turns(1);
}

describe('a batch', () => {
  onStores('counts its jobs by state, also after a restart', LASTING, async (t, data) => {
    const stage = stageFor(t, 3);
    let orchestrator = await start(t, { data, backends: [stage] });
    await orchestrator.batches.put({ batch_id: 'b', name: 'Night run', tags: { team: 'a' } });
    await submit(orchestrator, 'b', 6);
    await submit(orchestrator, 'other', 2);
    await stage.startedCount(3);
    stage.end('b.0:1');
    stage.end('b.1:1', FAILURE);
    await orchestrator.wait('b.1');
    await orchestrator.cancel('b.5');
    await stage.startedCount(5);
    const expected = { running: 3, succeeded: 1, dead: 1, cancelled: 1 };
    await turns(10);
    assert.deepEqual(await countsOf(orchestrator, 'b'), expected);
    await evicted(orchestrator);
    await orchestrator.stop();
    orchestrator = await start(t, { data, backends: [stage] });
    assert.deepEqual(await countsOf(orchestrator, 'b'), expected);
    const { name, tags, jobs, live_jobs, ended_at } = await orchestrator.batches.get('b');
    assert.deepEqual([name, tags, jobs, live_jobs, ended_at], ['Night run', { team: 'a' }, 6, 3, undefined]);
    await orchestrator.redrive('b.1');
    stage.endAll();
    await stage.until(() => stage.started.includes('b.1:2'));
    stage.endAll();
    await orchestrator.wait('b.1');
    for (const id of ['b.2', 'b.3', 'b.4']) await orchestrator.wait(id);
    assert.deepEqual(await countsOf(orchestrator, 'b'), { succeeded: 5, cancelled: 1 });
    assert.ok((await orchestrator.batches.get('b')).ended_at !== undefined);
    const names = (await orchestrator.batches.list()).map(({ batch_id }) => batch_id);
    assert.deepEqual(names.sort(), ['b', 'other']);
    assert.deepEqual(await orchestrator.batches.list('default', 10, { team: 'b' }), []);
    await assert.rejects(orchestrator.batches.get('b', 'another-tenant'), { code: 'NOT_FOUND' });
    stage.endAll();
  });

  onStores('gives its results in order of admission, wherever its jobs are', STORES, async (t, data) => {
    const stage = stageFor(t);
    const orchestrator = await start(t, { data, backends: [stage] });
    await submit(orchestrator, 'other', 5);
    await submit(orchestrator, 'b', 250);
    await stage.startedCount(255);
    for (let n = 0; n < 250; n += 2) stage.end(`b.${n}:1`, { ok: true, resultText: JSON.stringify({ n }) });
    for (let n = 0; n < 250; n += 2) await orchestrator.wait(`b.${n}`);
    await evicted(orchestrator);
    const all = await resultsOf(orchestrator, 'b');
    assert.deepEqual(
      all.map(({ job }) => job.job_id),
      Array.from({ length: 250 }, (_, n) => `b.${n}`),
    );
    assert.deepEqual([all[4]?.result, all[5]?.result], ['{"n":4}', undefined]);
    const ended = await resultsOf(orchestrator, 'b', { state: 'succeeded', include: 'payload' });
    assert.equal(ended.length, 125);
    assert.equal(typeof ended[0]?.payload, 'string');
    const rest = await resultsOf(orchestrator, 'b', { after: all[199]?.n });
    assert.deepEqual([rest.length, rest[0]?.job.job_id], [50, 'b.200']);
    stage.endAll();
  });
});

describe('a command by filter', () => {
  onStores(
    'cancels all live jobs that match, and only them; a preview changes nothing',
    STORES,
    async (t, data) => {
      const stage = stageFor(t, 2);
      const orchestrator = await start(t, { data, backends: [stage] });
      await submit(orchestrator, 'b', 250, { tags: { part: 'x' } });
      await submit(orchestrator, 'c', 3, { tags: { part: 'x', more: 'y' } });
      await stage.startedCount(2);
      const filter = { batch: 'b', tag: ['part=x'] };
      const preview = await orchestrator.bulk.cancel({ ...filter, dry_run: true }, 'test', 'default');
      assert.deepEqual([preview.matched, preview.changed, preview.job_ids.length], [250, 0, 10]);
      assert.deepEqual((await orchestrator.batches.get('b')).live_jobs, 250);
      const outcome = await orchestrator.bulk.cancel(filter, 'test', 'default');
      assert.deepEqual([outcome.matched, outcome.changed, outcome.refused], [250, 250, 0]);
      await Promise.all(['b.0', 'b.249'].map((id) => orchestrator.wait(id)));
      assert.deepEqual(await countsOf(orchestrator, 'b'), { cancelled: 250 });
      assert.equal((await orchestrator.batches.get('c')).live_jobs, 3);
      assert.equal(
        stage.started.filter((token) => token.startsWith('b.')).length,
        2,
        'no other one was started',
      );
      await assert.rejects(orchestrator.bulk.cancel({}, 'test', 'default'), { code: 'INVALID_PARAMS' });
      stage.endAll();
    },
  );

  onStores('redrives the dead jobs that match, from memory and from the history', STORES, async (t, data) => {
    const stage = stageFor(t);
    const orchestrator = await start(t, { data, backends: [stage] });
    await submit(orchestrator, 'b', 120);
    await stage.startedCount(120);
    for (let n = 0; n < 120; n++) stage.end(`b.${n}:1`, n < 110 ? FAILURE : undefined);
    for (let n = 0; n < 120; n++) await orchestrator.wait(`b.${n}`);
    await evicted(orchestrator);
    const outcome = await orchestrator.bulk.redrive({ batch: 'b' }, 'test', 'default');
    assert.deepEqual([outcome.matched, outcome.changed], [110, 110]);
    await stage.startedCount(230);
    const { live_jobs, counts } = await orchestrator.batches.get('b');
    assert.deepEqual([live_jobs, counts.dead, counts.succeeded], [110, 0, 10]);
    stage.endAll();
  });
});
