/** What operators order at run time over HTTP: to compare with executors at once, to evict a pool, to size worker pools. */
import assert from 'node:assert/strict';
import { never, RUNS } from '../golden/maker/executor.ts';
import { LASTING, onStores } from './flow-kit.ts';
import { type Answer, MODEL, OperatorSite } from './operator-site.ts';

onStores(
  '[NEWS-8] an operator has open attempts compared with what executors run, at once',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    for (const id of ['runs', 'lost']) site.behaviours[`${id}:1`] = RUNS;
    await site.open();
    for (const id of ['runs', 'lost'])
      await site.call('POST', '/v2/tasks', { job_id: id, type: 't', payload: {}, on_unknown: 'hold' });
    const states = (): Promise<string[]> =>
      Promise.all(['runs', 'lost'].map(async (id) => (await site.call('GET', `/v2/tasks/${id}`)).state));
    await site.until(async () => (await states()).every((state) => state === 'running'));
    site.behaviours['lost:1'] = { follow: never };
    assert.deepEqual(await states(), ['running', 'running']);
    const report = await site.call('POST', '/control/reconcile');
    const found = report.backends[0].attempts.map((each: { token: string; found: string }) => [
      each.token,
      each.found,
    ]);
    assert.deepEqual([report.trigger, found], ['operator', [['lost:1', 'held']]]);
    assert.deepEqual(await states(), ['running', 'stale']);
    const { reports } = await site.call('GET', '/control/reconcile');
    assert.deepEqual(reports.at(-1), report);
  },
);

onStores(
  '[NEWS-8] a floor and a ceiling of workers are in force at once, previewed, undone, and those of the next brain',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    await site.open();
    site.pools.add('box', [100]);
    await site.call('POST', '/v2/catalog/models', MODEL);
    const create = { pool_id: 'w', model_id: 'm', desired_workers: 1 };
    await site.call('POST', '/workers/pool', create);
    await site.started(1);
    await site.until(async () => (await site.row('w'))[0] === 'running');
    const wished = { min_warm_workers_per_pool: 3, max_total_workers: 3, why: 'a demonstration' };
    const dry = await site.call('PUT', '/control/policy?dry_run=true', wished);
    assert.deepEqual(dry.preview.worker_pools, [{ pool_id: 'w', before: 1, wished_workers: 3 }]);
    assert.deepEqual(await site.row('w'), ['running', 1, 1]);
    const { in_force: force } = await site.call('PUT', '/control/policy', wished);
    assert.deepEqual([force.min_warm_workers_per_pool, force.max_total_workers], [3, 3]);
    await site.started(3);
    await site.until(async () => (await site.row('w'))[2] === 3);
    await site.call('POST', '/workers/pool', { pool_id: 'x', desired_workers: 2 });
    assert.deepEqual(await site.row('x'), ['starting', 0, 0], 'all three are there');
    await site.brain.stop();
    await site.open();
    const kept = await site.call('GET', '/control/policy');
    assert.deepEqual(
      [kept.set.min_warm_workers_per_pool, kept.set.max_total_workers, kept.why],
      [3, 3, wished.why],
    );
    assert.deepEqual(
      [await site.row('w'), await site.row('x')],
      [
        ['running', 3, 3],
        ['starting', 0, 0],
      ],
    );
    const contrary = { min_warm_workers_per_pool: 4, max_total_workers: 3, why: 'x' };
    const refused = await site.call('PUT', '/control/policy', contrary, [400]);
    assert.deepEqual(
      [refused.error.code, refused.error.field],
      ['INVALID_PARAMS', 'min_warm_workers_per_pool'],
    );
    for (const [name, value] of [
      ['max_total_workers', -1],
      ['max_total_workers', 1e9],
      ['min_warm_workers_per_pool', 1.5],
    ] as const)
      assert.equal(
        (await site.call('PUT', '/control/policy', { [name]: value, why: 'x' }, [400])).error.code,
        'INVALID_PARAMS',
      );
    assert.equal(
      (await site.call('PUT', '/control/policy', { max_total_workers: 0, why: 'x' }, [400])).error.field,
      'force',
    );
    const undone = await site.call('POST', '/control/policy/undo', { why: 'over' });
    assert.deepEqual([undone.set, undone.in_force.max_total_workers], [{}, 100_000]);
    assert.deepEqual(
      [await site.row('w'), await site.row('x')],
      [
        ['running', 1, 1],
        ['starting', 2, 0],
      ],
    );
    await site.pools.ordered(5);
    assert.equal(site.pools.endings.length, 2);
  },
);

onStores(
  '[NEWS-8] evict_pool ends a worker pool of pool managers or of a program outside, and empties the pool of a manager',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    await site.open();
    site.pools.add('box', [100]);
    await site.call('POST', '/v2/catalog/models', MODEL);
    for (const pool_id of ['w', 'box'])
      await site.call('POST', '/workers/pool', { pool_id, model_id: 'm', desired_workers: 2 });
    await site.started(4);
    await site.call('POST', '/workers/pool', { pool_id: 'out', desired_workers: 1 });
    const { consumer_id: id } = await site.call('POST', '/v2/consumers', {
      pool: 'out',
      slots: 1,
      types: ['u'],
    });
    const evict = (body: object, status = [202]): Promise<Answer> =>
      site.call('POST', '/control/evict_pool', body, status);
    const both = await evict({ pool_id: 'box' }, [400]);
    assert.deepEqual([both.error.code, both.error.field, site.pools.endings], ['INVALID_PARAMS', 'kind', []]);
    assert.equal((await evict({ pool_id: 'none' }, [404])).error.code, 'NOT_FOUND');
    const { workers } = await evict({ pool_id: 'w' });
    await site.pools.ordered(6);
    assert.deepEqual(
      site.pools.endings,
      workers.map((worker: string) => `stop box/${worker}`),
    );
    for (const worker of workers) site.pools.hide('box', worker);
    assert.deepEqual((await evict({ pool_id: 'out' })).workers, []);
    assert.equal((await site.call('POST', `/v2/consumers/${id}/claim`, { claim: 1, max: 1 })).drain, true);
    assert.equal((await evict({ pool_id: 'box', kind: 'pool' })).workers.length, 2);
    await site.brain.stop();
    await site.open();
    const rows = await Promise.all(['w', 'out', 'box'].map((each) => site.row(each)));
    assert.deepEqual(
      rows.map(([status, wished]) => [status, wished]),
      [
        ['evicted', 0],
        ['evicted', 0],
        ['starting', 2],
      ],
    );
  },
);
