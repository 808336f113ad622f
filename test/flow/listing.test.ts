import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import type { JobView, ListRequest } from '../../src/index.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { onStores, STORES, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

/** All pages, one after another. */
async function pages(orchestrator: Orchestrator, request: ListRequest): Promise<JobView[]> {
  const all: JobView[] = [];
  let cursor: string | undefined;
  do {
    const page = await orchestrator.list({ ...request, ...(cursor !== undefined && { cursor }) });
    assert.ok(page.jobs.length <= (request.limit ?? 50));
    assert.ok(page.jobs.length > 0 || page.cursor === undefined, 'a page with a cursor has something on it');
    all.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return all;
}

const idsOf = (jobs: readonly JobView[]): string[] => jobs.map(({ job_id }) => job_id);

async function begin(
  t: TestContext,
  data: string,
  config = '',
): Promise<{ stage: Stage; orchestrator: Orchestrator }> {
  const stage = new Stage({ types: ['run'], slots: 1000 });
  t.after(() => stage.endAll());
  return { stage, orchestrator: await start(t, { data, config, backends: [stage] }) };
}

/** Every second job has ended, most of them are out of memory. */
async function mixed(orchestrator: Orchestrator, stage: Stage, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, n) => `j${n}`);
  await orchestrator.submitMany(ids.map((job_id, n) => ({ job_id, type: n % 2 === 0 ? 'run' : 'waits' })));
  await stage.startedCount(Math.ceil(count / 2));
  stage.endAll();
  for (let n = 0; n < count; n += 2) await orchestrator.wait(`j${n}`);
  return ids.reverse();
}

describe('pages', () => {
  onStores(
    'go through live and ended jobs as one sequence, newest first, without a gap and without a repeat',
    STORES,
    async (t, data) => {
      const { stage, orchestrator } = await begin(t, data);
      const ids = await mixed(orchestrator, stage, 101);
      for (const limit of [1, 7, 50, 101, 1000]) {
        assert.deepEqual(idsOf(await pages(orchestrator, { limit })), ids, `at any moment, by ${limit}`);
      }
      while (engineOf(orchestrator).state.ended.size > 0) await turns(1);
      for (const limit of [1, 7, 50, 101, 1000]) {
        assert.deepEqual(idsOf(await pages(orchestrator, { limit })), ids, `settled, by ${limit}`);
      }
    },
  );

  onStores('find jobs by the beginning of their ids', STORES, async (t, data) => {
    const { stage, orchestrator } = await begin(t, data);
    await orchestrator.submit({ job_id: 'task-1', type: 'run' }, { tenant: 'task' });
    await orchestrator.submitMany([
      { job_id: 'task-1', type: 'run' },
      { job_id: 'task-2', type: 'waits' },
      { job_id: 'task', type: 'run' },
      { job_id: 'other', type: 'run' },
    ]);
    await stage.startedCount(4);
    stage.endAll();
    for (const id of ['task-1', 'task', 'other']) await orchestrator.wait(id);
    const found = async (request: ListRequest, tenant?: string): Promise<string[]> =>
      idsOf((await orchestrator.list(request, tenant)).jobs);
    for (const when of ['at any moment', 'settled']) {
      assert.deepEqual(await found({ id_prefix: 'task' }), ['task'], when);
      assert.deepEqual(await found({ id_prefix: 'task-' }), ['task-2', 'task-1'], when);
      assert.deepEqual(await found({ id_prefix: 'task-', limit: 1 }), ['task-2'], when);
      assert.deepEqual(await found({ id_prefix: 'task-' }, 'task'), ['task-1'], when);
      assert.deepEqual(await found({ id_prefix: 'none' }), [], when);
      while (engineOf(orchestrator).state.ended.size > 0) await turns(1);
    }
  });

  onStores('have all jobs below a topmost job, at any depth, live and ended', STORES, async (t, data) => {
    const { stage, orchestrator } = await begin(t, data, 'orchestrator: {cancel_deadline_ms: 20}');
    const below = (job_id: string, parent_id: string, type: string) =>
      orchestrator.submit({ job_id, parent_id, type });
    await orchestrator.submit({ job_id: 'top', type: 'waits' });
    await orchestrator.submit({ job_id: 'top', type: 'waits' }, { tenant: 'acme' });
    await orchestrator.submit({ job_id: 'theirs', type: 'waits', parent_id: 'top' }, { tenant: 'acme' });
    await orchestrator.submit({ job_id: 'other', type: 'waits' });
    await below('beside', 'other', 'waits');
    await below('a', 'top', 'run');
    await below('b', 'top', 'waits');
    await below('c', 'b', 'run');
    await below('d', 'top', 'waits');
    await below('e', 'd', 'run');
    await stage.startedCount(3);
    const found = async (request: ListRequest): Promise<string[]> =>
      idsOf(await pages(orchestrator, request));
    const all = ['e', 'd', 'c', 'b', 'a'];
    for (const limit of [1, 2, 50]) assert.deepEqual(await found({ root: 'top', limit }), all);
    stage.end('a:1');
    stage.end('c:1');
    await Promise.all([orchestrator.wait('a'), orchestrator.wait('c')]);
    for (const when of ['at any moment', 'settled']) {
      for (const limit of [1, 2, 50]) assert.deepEqual(await found({ root: 'top', limit }), all, when);
      assert.deepEqual(await found({ root: 'top', state: 'succeeded' }), ['c', 'a'], when);
      assert.deepEqual(await found({ root: 'other' }), ['beside'], when);
      assert.deepEqual(await found({ root: 'b' }), [], 'only a topmost job is a root');
      assert.deepEqual(idsOf((await orchestrator.list({ root: 'top' }, 'acme')).jobs), ['theirs'], when);
      while (engineOf(orchestrator).state.ended.size > 0) await turns(1);
    }
    // A cancelled job whose attempt has not ended yet is neither live nor ready for the history.
    stage.obeys = false;
    await orchestrator.cancel('e');
    assert.equal((await orchestrator.wait('e')).state, 'cancelled');
    assert.deepEqual(await found({ root: 'top' }), all, 'cancelled');
  });

  onStores('keep to their filter', STORES, async (t, data) => {
    const { stage, orchestrator } = await begin(t, data);
    const ids = await mixed(orchestrator, stage, 40);
    await orchestrator.submit({ job_id: 'k', key: 'key', session_id: 's', agent: 'me' });
    await orchestrator.submit({ job_id: 'theirs' }, { tenant: 'acme' });
    const live = ids.filter((_, n) => n % 2 === 0);
    const cases: [ListRequest, string[]][] = [
      [{ state: 'succeeded' }, ids.filter((_, n) => n % 2 === 1)],
      [{ state: 'queued' }, ['k', ...live]],
      [{ state: 'queued, succeeded' }, ['k', ...ids]],
      [{ type: 'waits' }, live],
      [{ key: 'key' }, ['k']],
      [{ session_id: 's' }, ['k']],
      [{ agent: 'me' }, ['k']],
      [{ state: 'dead' }, []],
    ];
    for (const [request, expected] of cases) {
      assert.deepEqual(
        idsOf(await pages(orchestrator, { ...request, limit: 3 })),
        expected,
        JSON.stringify(request),
      );
    }
    assert.deepEqual(idsOf((await orchestrator.list({}, 'acme')).jobs), ['theirs']);
  });
});

onStores('jobs that were redriven do not hide the dead ones behind them', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  const ids = ['d1', 'd2', 'd3', 'd4', 'd5'];
  for (const [n, job_id] of ids.entries()) {
    await orchestrator.submit({ job_id, type: 'run', max_tries: 1 });
    await stage.startedCount(n + 1);
    stage.end(`${job_id}:1`, { ok: false, error: { code: 'INTERNAL', message: 'x', retriable: true } });
    await orchestrator.wait(job_id);
  }
  while (engineOf(orchestrator).state.jobs.size > 0) await turns(1);
  for (const id of ['d5', 'd4', 'd3']) await orchestrator.redrive(id);
  assert.deepEqual(idsOf(await pages(orchestrator, { state: 'dead', limit: 2 })), ['d2', 'd1']);
  assert.deepEqual(idsOf(await pages(orchestrator, { limit: 2 })), [...ids].reverse());
});

onStores('what ends while pages are turned is on one of them', STORES, async (t, data) => {
  const { stage, orchestrator } = await begin(t, data);
  const ids = Array.from({ length: 60 }, (_, n) => `j${n}`);
  await orchestrator.submitMany(ids.map((job_id) => ({ job_id, type: 'run' })));
  await stage.startedCount(60);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await orchestrator.list({ limit: 5, ...(cursor !== undefined && { cursor }) });
    seen.push(...idsOf(page.jobs));
    cursor = page.cursor;
    for (const token of stage.runningTokens.slice(0, 7)) stage.end(token);
    await turns(30);
  } while (cursor !== undefined);
  assert.deepEqual(seen, ids.reverse());
});
