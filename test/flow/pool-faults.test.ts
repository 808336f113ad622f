/** What is wrong or goes wrong around worker pools and leases: each has its code, and a pool beside it goes on. */
import assert from 'node:assert/strict';
import { GB } from '../golden/maker/pools.ts';
import { LASTING, onStores } from './flow-kit.ts';
import { type Answer, MODEL, OperatorSite } from './operator-site.ts';

const NOT_HELD = [409, 'LEASE_NOT_HELD'];

/** A site with a worker pool `ok`, which has one worker on a GPU of 10 GB of the pool `box`. */
class Site extends OperatorSite {
  async begin(): Promise<void> {
    await this.open();
    this.pools.add('box', [10]);
    await this.call('POST', '/v2/catalog/models', MODEL);
    await this.call('POST', '/workers/pool', { pool_id: 'ok', model_id: 'm', desired_workers: 1 });
    await this.started(1);
    await this.until(async () => (await this.row('ok'))[0] === 'running');
  }

  async refused(method: string, path: string, body?: object): Promise<unknown[]> {
    const status = [400, 403, 404, 409, 422, 503];
    const init = { method, ...(body && { headers: { 'content-type': 'application/json' } }) };
    const answer = await fetch(`${this.brain.url}${path}`, {
      ...init,
      ...(body && { body: JSON.stringify(body) }),
    });
    assert.ok(status.includes(answer.status), `${method} ${path}: ${answer.status}`);
    return [answer.status, ((await answer.json()) as Answer).error.code];
  }

  /** The pool `ok` is as it was, there is no other one, and a job is run, also by the next brain. */
  async isUnharmed(): Promise<void> {
    for (const job_id of ['before', 'after']) {
      assert.deepEqual(await this.row('ok'), ['running', 1, 1]);
      const { pools } = await this.call('GET', '/workers/pool');
      assert.deepEqual(
        pools.map(({ pool_id }: Answer) => pool_id),
        ['ok'],
      );
      await this.call('POST', '/v2/tasks', { job_id, model: 'm', prompt: 'x', wait_for_backend: true });
      await this.until(async () => (await this.call('GET', `/v2/tasks/${job_id}`)).state === 'succeeded');
      await this.brain.stop();
      await this.open();
    }
    assert.deepEqual([this.pools.starts.length, this.pools.endings], [1, []]);
  }
}

onStores(
  'a worker pool that cannot be is refused with its code, and nothing is written',
  LASTING,
  async (t, data) => {
    const site = new Site(t, data);
    await site.begin();
    await site.call('POST', '/v2/catalog/models', {
      ...{ ...MODEL, model_id: 'huge', model_ref: 'demo:huge' },
      vram_bytes: 11 * GB,
    });
    const create = (body: object): Promise<unknown[]> =>
      site.refused('POST', '/workers/pool', { pool_id: 'x', ...body });
    assert.deepEqual(await create({ model_id: 'nobody' }), [404, 'MODEL_NOT_FOUND']);
    assert.deepEqual(await create({ model_id: 'huge' }), [409, 'INSUFFICIENT_VRAM']);
    assert.deepEqual(await create({ model_id: 'm', desired_workers: 1e9 }), [400, 'INVALID_PARAMS']);
    assert.deepEqual(await site.refused('PUT', '/workers/pool/ok', { desired_workers: 1e9 }), [
      400,
      'INVALID_PARAMS',
    ]);
    const beat = { spawned_workers: 5 };
    assert.deepEqual(await site.refused('POST', '/workers/pool/ok/heartbeat', beat), [409, 'ILLEGAL_STATE']);
    await site.call('POST', '/workers/pool', { pool_id: 'gone', desired_workers: 1 });
    await site.call('POST', '/workers/pool/gone/evict');
    await site.call('DELETE', '/workers/pool/gone');
    for (const what of ['heartbeat', 'drain'])
      assert.deepEqual(
        await site.refused('POST', `/workers/pool/gone/${what}`, what === 'drain' ? {} : beat),
        [404, 'NOT_FOUND'],
      );
    await site.isUnharmed();
  },
);

onStores(
  'a lease that cannot be, or is over, is refused with its code, and no device is lost',
  LASTING,
  async (t, data) => {
    const site = new Site(t, data);
    await site.begin();
    const wish = (more: object): Promise<unknown[]> =>
      site.refused('POST', '/leases', { min_memory_mb: 1, ...more });
    assert.deepEqual(
      await wish({ pool: 'box', min_memory_mb: 10_000 }),
      [409, 'INSUFFICIENT_VRAM'],
      'more than it has',
    );
    assert.deepEqual(await wish({ pool: 'none' }), [404, 'NOT_FOUND']);
    assert.deepEqual(await wish({ pool: 'box', gpu_index: 7 }), [404, 'NOT_FOUND']);
    assert.deepEqual(await wish({ min_memory_mb: 1e12 }), [400, 'INVALID_PARAMS']);
    const whole = { pool: 'box', min_memory_mb: 8000 };
    for (let turn = 0; turn < 3; turn++) {
      const { token, mode } = await site.call('POST', '/leases', whole);
      assert.equal(mode, 'gpu', 'what was given back is lent again');
      await site.call('POST', `/leases/${token}/release`, {});
      for (const what of ['release', 'heartbeat'])
        assert.deepEqual(await site.refused('POST', `/leases/${token}/${what}`, {}), NOT_HELD, what);
      const late = { job_id: `late${turn}`, model: 'm', prompt: 'x', lease: { token, fence: 1 } };
      assert.deepEqual(await site.refused('POST', '/v2/tasks', late), NOT_HELD);
    }
    assert.equal(
      (await site.call('POST', '/leases', { min_memory_mb: 10_000 })).mode,
      'cpu',
      'no GPU is that large',
    );
    await site.isUnharmed();
  },
);

onStores(
  'a device that vanishes takes no lease and no worker, and is as it was when it returns',
  LASTING,
  async (t, data) => {
    const site = new Site(t, data);
    await site.begin();
    const { token } = await site.call('POST', '/leases', { pool: 'box', min_memory_mb: 4000 });
    const mode = async (min_memory_mb: number): Promise<unknown> => {
      const lease = await site.call('POST', '/leases', { min_memory_mb });
      await site.call('POST', `/leases/${lease.token}/release`, {});
      return lease.mode;
    };
    site.pools.setDevice('box', 0, 'gone');
    await site.until(async () => (await mode(1)) === 'cpu');
    await site.call('PUT', '/workers/pool/ok', { desired_workers: 2 });
    assert.deepEqual(await site.row('ok'), ['starting', 2, 1]);
    assert.equal((await site.call('POST', `/leases/${token}/heartbeat`, {})).gpu_index, 0, 'it is held');
    await site.call('PUT', '/workers/pool/ok', { desired_workers: 1 });
    assert.equal(site.pools.starts.length, 1);
    site.pools.setDevice('box', 0, 'back');
    await site.until(async () => (await mode(1)) === 'gpu');
    assert.equal(await mode(6000), 'cpu', 'the lease counts');
    await site.call('POST', `/leases/${token}/release`, {});
    assert.equal(await mode(6000), 'gpu');
    await site.isUnharmed();
  },
);
