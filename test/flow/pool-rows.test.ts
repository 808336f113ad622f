/** The life of worker pools over HTTP, on stores that last, with a brain that is restarted in between. */
import assert from 'node:assert/strict';
import { RUNS } from '../golden/maker/executor.ts';
import { auditLines } from './audit-lines.ts';
import { LASTING, onStores } from './flow-kit.ts';
import { type Answer, MODEL, OperatorSite } from './operator-site.ts';

const restart = async (site: OperatorSite): Promise<void> => {
  await site.brain.stop();
  await site.open();
};

const rows = async (site: OperatorSite): Promise<readonly Answer[]> =>
  (await site.call('GET', '/workers/pool')).pools;

onStores(
  '[NEWS-3] a worker pool is a row that is carried out through pool managers, survives restarts, is filled again by the next brain, and ends by hold, drain or evict',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    await site.open();
    site.pools.add('box', [100]);
    await site.call('POST', '/v2/catalog/models', { ...MODEL, model_ref: 'file:/models/m.gguf' });
    const asked = {
      ...{ pool_id: 'w', agent_name: 'embedder', model_id: 'm' },
      ...{ adapter: 'file:/srv/news.gguf', variant: 'fp16', desired_workers: 2 },
    };
    const made = await site.call('POST', '/workers/pool', asked);
    assert.deepEqual([made.status, made.hold_seconds, made.spawned_workers], ['starting', 600, 0]);
    await site.pools.ordered(2);
    const ref = 'file:/models/m.gguf::adapter=/srv/news.gguf::variant=fp16';
    assert.deepEqual(
      site.pools.starts.map(({ modelRef }) => modelRef),
      [ref, ref],
    );

    await restart(site);
    const [kept] = await rows(site);
    assert.deepEqual(kept, { ...made, problem: kept.problem });
    await site.started(2);
    await site.until(async () => (await site.row('w'))[0] === 'running');
    assert.deepEqual(await site.row('w'), ['running', 2, 2]);

    await site.brain.stop();
    const given = site.pools.starts.length;
    site.pools.hide('box', site.pools.starts[0]?.id ?? '');
    await site.open();
    await site.started(given + 1);
    await site.until(async () => (await site.row('w'))[0] === 'running');
    assert.deepEqual(new Set(site.pools.starts.map(({ id }) => id)).size, 3, 'one more');

    await site.call('POST', '/workers/pool/w/drain', {});
    await site.until(async () => site.pools.endings.length >= 2);
    assert.deepEqual(await site.row('w'), ['draining', 0, 0]);
    for (const { id } of site.pools.starts) site.pools.hide('box', id);
    await site.until(async () => (await site.row('w'))[0] === 'stopped');

    const held = { pool_id: 'held', model_id: 'm', desired_workers: 1, hold_seconds: 1 };
    await site.call('POST', '/workers/pool', held);
    await site.call('POST', '/workers/pool', { ...asked, pool_id: 'x', desired_workers: 1 });
    await site.started(site.pools.starts.length + site.pools.endings.length + 2);
    await site.call('POST', '/workers/pool/x/evict');
    await site.until(async () => {
      for (const { id } of site.pools.starts)
        if (site.pools.endings.includes(`stop box/${id}`)) site.pools.hide('box', id);
      return (await site.row('held'))[0] === 'stopped' && (await site.row('x'))[2] === 0;
    });
    await restart(site);
    assert.deepEqual((await rows(site)).map(({ pool_id, status, by }) => [pool_id, status, by]).sort(), [
      ['held', 'stopped', 'hold'],
      ['w', 'stopped', 'local'],
      ['x', 'evicted', 'local'],
    ]);
  },
);

onStores(
  '[NEWS-3] a program outside hears what is wished of its worker pool, and its heartbeats say what runs',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    await site.open();
    const asked = { pool_id: 'out', adapter: 'a.gguf', variant: 'fp16', desired_workers: 2 };
    const made = await site.call('POST', '/workers/pool', asked);
    assert.equal(made.provisioner, 'external');
    const wished = async (): Promise<Answer> => (await site.call('GET', '/workers/wished')).pools[0];
    const beat = (spawned: number): Promise<Answer> =>
      site.call('POST', '/workers/pool/out/heartbeat', { spawned_workers: spawned });
    const { adapter, variant, wished_workers, status } = await wished();
    assert.deepEqual([adapter, variant, wished_workers, status], ['a.gguf', 'fp16', 2, 'starting']);
    const beaten = await beat(2);
    assert.deepEqual([beaten.status, beaten.spawned_workers], ['running', 2]);
    assert.ok(beaten.last_heartbeat >= made.started_at);
    await restart(site);
    assert.deepEqual(await site.row('out'), ['running', 2, 2]);
    assert.equal((await beat(1)).status, 'starting');
    await site.call('POST', '/workers/pool/out/drain', {});
    assert.deepEqual(await site.row('out'), ['draining', 0, 1]);
    await beat(0);
    await site.until(async () => (await site.row('out'))[0] === 'stopped');
  },
);

onStores(
  '[NEWS-10] a pool that drains gets no new jobs; what runs may finish within the grace time; its leases are released, and then it is stopped',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    await site.open();
    site.pools.add('gpu', [10]);
    await site.call('POST', '/workers/pool', { pool_id: 'w', desired_workers: 1 });
    await site.call('POST', '/workers/pool/w/heartbeat', { spawned_workers: 1 });
    const declared = { pool: 'w', slots: 4, types: ['u'], lease_ttl_ms: 600_000, gpu_memory_mb: 1000 };
    const { consumer_id: id } = await site.call('POST', '/v2/consumers', declared);
    const submit = (job_id: string): Promise<Answer> =>
      site.call('POST', '/v2/tasks', { job_id, type: 'u', payload: {}, wait_for_backend: true });
    let claims = 0;
    const claim = (): Promise<Answer> =>
      site.call('POST', `/v2/consumers/${id}/claim`, { claim: ++claims, max: 4 });
    const finish = (token: string): Promise<Answer> =>
      site.call('POST', `/v2/consumers/${id}/results`, { results: [{ token, ok: true, result: {} }] });
    const seen = async (): Promise<unknown[]> => {
      const { leases } = await site.call('GET', '/leases');
      const jobs = ['done', 'late', 'new'].map(
        async (job) => (await site.call('GET', `/v2/tasks/${job}`)).state,
      );
      return [(await site.row('w'))[0], leases.length, ...(await Promise.all(jobs))];
    };
    for (const job of ['done', 'late']) await submit(job);
    assert.equal((await claim()).jobs.length, 2);
    await site.call('POST', '/workers/pool/w/drain', { grace_seconds: 600 });
    await submit('new');
    assert.deepEqual([(await claim()).jobs, (await claim()).drain], [[], true]);
    await finish('done:1');
    await restart(site);
    assert.deepEqual([(await claim()).jobs, (await claim()).drain], [[], true]);
    assert.deepEqual(await seen(), ['draining', 1, 'succeeded', 'running', 'queued']);

    await site.call('POST', '/workers/pool/w/drain', { grace_seconds: 1 });
    assert.equal((await site.call('GET', '/workers/pool/w')).grace_over, false);
    await site.until(async () => (await site.call('GET', '/workers/wished')).pools[0].grace_over);
    assert.deepEqual(await seen(), ['draining', 1, 'succeeded', 'running', 'queued']);
    await site.call('DELETE', `/v2/consumers/${id}`);
    await site.until(async () => (await site.row('w'))[0] === 'stopped');
    assert.deepEqual(await seen(), ['stopped', 0, 'succeeded', 'queued', 'queued']);
    await site.brain.stop();
    const ends = (await auditLines(t, data)).filter(
      ({ kind, cause, state }) => (kind === 'lease' && cause === 'released') || state === 'stopped',
    );
    assert.deepEqual(
      ends.map(({ kind, id }) => `${kind} ${id}`),
      ['lease attempt:done:1', 'lease attempt:late:1', 'worker_pool w'],
    );
  },
);

onStores(
  '[NEWS-10] what runs on a worker of a pool manager when the grace time of its worker pool is over is ended, and then the pool is stopped',
  LASTING,
  async (t, data) => {
    const site = new OperatorSite(t, data);
    site.behaviours['runs:1'] = RUNS;
    await site.open();
    site.pools.add('box', [100]);
    await site.call('POST', '/v2/catalog/models', MODEL);
    await site.call('POST', '/workers/pool', { pool_id: 'w', model_id: 'm', desired_workers: 1 });
    await site.started(1);
    const [{ id: worker } = { id: '' }] = site.pools.starts;
    await site.call('POST', '/v2/tasks', { job_id: 'runs', model: 'm', prompt: 'x', wait_for_backend: true });
    const state = async (): Promise<string> => (await site.call('GET', '/v2/tasks/runs')).state;
    await site.until(async () => (await state()) === 'running');
    await site.call('POST', '/workers/pool/w/drain', { grace_seconds: 1 });
    await site.until(async () => site.pools.endings.length > 0);
    assert.deepEqual([site.pools.endings[0], await state()], [`drain box/${worker}`, 'running']);
    await site.until(async () => site.pools.endings.includes(`stop box/${worker}`));
    assert.equal((await site.row('w'))[0], 'draining', 'its process is there yet');
    await restart(site);
    site.pools.hide('box', worker);
    await site.until(async () => (await site.row('w'))[0] === 'stopped');
    assert.notEqual(await state(), 'running');
  },
);
