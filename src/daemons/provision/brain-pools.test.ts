import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConsumerError } from '../../consumer/api.ts';
import type { WorkerPoolView } from '../../model/http/worker-pools.ts';
import { BrainPools, wishOf } from './brain-pools.ts';

const rowOf = (pool_id: string, more: Partial<WorkerPoolView> = {}): WorkerPoolView =>
  ({ pool_id, status: 'running', wished_workers: 2, spawned_workers: 2, ...more }) as WorkerPoolView;

/** A brain with these rows, which notes what it is told, and what runs by pool. */
function setUp(rows: readonly WorkerPoolView[], pools?: readonly string[]) {
  const site = { now: 0, counts: new Map<string, number>(), told: [] as string[], rows, isAway: false };
  const call = async (method: string, path: string, request?: { body?: unknown }): Promise<unknown> => {
    if (site.isAway) throw new ConsumerError(503, 'NO_LEADER', '', true);
    if (method === 'GET') return { pools: site.rows };
    const { spawned_workers: count } = (request?.body ?? {}) as { spawned_workers: number };
    const pool = decodeURIComponent(path.split('/')[3] ?? '');
    site.told.push(`${pool} ${count}`);
    return rowOf(pool, { spawned_workers: count });
  };
  const brain = new BrainPools({
    api: { call: call as never },
    pools,
    monotonic: () => site.now,
    countOf: (pool) => site.counts.get(pool) ?? 0,
  });
  return { site, brain };
}

test('a count that the brain does not know is told at once, another one now and then', async () => {
  const { site, brain } = setUp([rowOf('a', { spawned_workers: 1 })]);
  site.counts.set('a', 2);
  await brain.ask();
  await brain.tell();
  assert.deepEqual(site.told, ['a 2']);
  assert.equal(brain.row('a')?.spawned_workers, 2);
  await brain.tell();
  assert.equal(site.told.length, 1);
  site.now = 10_000;
  await brain.tell();
  assert.deepEqual(site.told, ['a 2', 'a 2']);
  site.counts.set('a', 0);
  await brain.tell();
  assert.deepEqual(site.told.at(-1), 'a 0');
});

test('what a brain with an old row says is corrected, and of a worker pool that is over nothing more is told', async () => {
  const { site, brain } = setUp([rowOf('a', { status: 'evicted', spawned_workers: 3 })]);
  await brain.ask();
  await brain.tell();
  assert.deepEqual(site.told, ['a 0']);
  site.rows = [rowOf('a', { status: 'evicted', spawned_workers: 0 })];
  await brain.ask();
  site.now = 60_000;
  await brain.tell();
  assert.equal(site.told.length, 1);
});

test('only the named worker pools are carried out, and those that are not there are named', async () => {
  const { site, brain } = setUp([rowOf('a'), rowOf('b')], ['b', 'c']);
  site.counts.set('a', 5);
  assert.deepEqual(await brain.ask(), ['c']);
  assert.deepEqual(
    brain.rows.map(({ pool_id: id }) => id),
    ['b'],
  );
});

test('while the brain is away the rows stay as they were', async () => {
  const { site, brain } = setUp([rowOf('a')]);
  assert.equal(brain.isKnown, false);
  site.isAway = true;
  await assert.rejects(brain.ask());
  assert.equal(brain.isKnown, false);
  site.isAway = false;
  await brain.ask();
  site.isAway = true;
  await assert.rejects(brain.ask());
  assert.equal(brain.row('a')?.wished_workers, 2);
});

test('a drained worker pool lets its processes finish, an evicted one and one whose grace time is over do not', () => {
  assert.deepEqual(wishOf(rowOf('a')), { is: 'keep', count: 2 });
  assert.deepEqual(wishOf(rowOf('a', { status: 'draining', wished_workers: 0 })), { is: 'keep', count: 0 });
  for (const status of ['evicted', 'stopped'] as const)
    assert.deepEqual(wishOf(rowOf('a', { status, wished_workers: 0 })), { is: 'kill' });
  const late = rowOf('a', { status: 'draining', wished_workers: 0, grace_over: true });
  assert.deepEqual(wishOf(late), { is: 'kill' });
  assert.deepEqual(wishOf(undefined), { is: 'keep', count: 0 }, 'one that was deleted');
});
