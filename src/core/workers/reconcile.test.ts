import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { WORKER_STATUSES } from '../../model/pool-wire.ts';
import type { WorkerRecord } from '../../model/records.ts';
import { poolView } from '../../runtime/views.ts';
import { dueWorkers } from '../engine/due.ts';

/** A kit with one worker that runs job "j". */
function running(fields: Parameters<PoolKit['ask']>[2] = {}): { kit: PoolKit; worker: string } {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m');
  kit.ask('j', 'm', fields);
  kit.obey();
  kit.accept('j');
  return { kit, worker: [...kit.engine.state.workers.entries()][0]![0] };
}

test('a pool whose reports are refused shows why, until a report is taken', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  const view = () => poolView(kit.engine, kit.engine.state.pools.get('p')!);
  kit.step({ type: 'pool-lost', id: 'p' });
  assert.deepEqual([view().status, view().problem], ['unreachable', undefined]);
  kit.step({ type: 'pool-lost', id: 'p', problem: 'too many workers' });
  assert.deepEqual([view().status, view().problem], ['unreachable', 'too many workers']);
  kit.report('p');
  assert.deepEqual([view().status, view().problem], ['ok', undefined]);
});

describe('a worker that its manager no longer reports', () => {
  test('is dead: its job is retried, once, on another worker', () => {
    const { kit, worker } = running();
    kit.dies('p', worker);
    assert.deepEqual([kit.state('j'), kit.job('j').job.tries], ['queued', 1]);
    assert.equal(kit.engine.queue.fleet.backends.size, 0);
    kit.pass(1000);
    kit.obey();
    assert.equal(kit.state('j'), 'claimed');
    assert.notEqual(kit.workerOf('j'), `p/${worker}`);
  });

  test('is not taken for dead if the manager has another registry: its job is not run twice', () => {
    const { kit, worker } = running();
    const pool = kit.pools.get('p')!;
    pool.registry = 'another memory';
    pool.version++;
    kit.dies('p', worker);
    kit.pass(200_000);
    assert.deepEqual([kit.state('j'), kit.job('j').open?.state], ['running', 'accepted']);
    assert.equal(kit.claims.length, 1);
  });

  test('with another registry is not taken for dead while it is stopping, or after a restart of the brain', () => {
    const forgets = (kit: PoolKit, worker: string): void => {
      const pool = kit.pools.get('p')!;
      pool.registry = 'another memory';
      pool.version++;
      kit.dies('p', worker);
    };
    const { kit, worker } = running();
    kit.step({ type: 'pool-order', id: 'p', order: { is: 'drain', deadlineMs: 1000 }, by: 'me' });
    kit.pass(2000);
    assert.deepEqual(kit.workers(), ['m stopping']);
    forgets(kit, worker);
    assert.equal(kit.job('j').open?.state, 'accepted');
    kit.end('j', SUCCESS);
    kit.report('p');
    assert.deepEqual(kit.workers(), [], 'nothing is open on it, so it need not be waited for');

    const before = running();
    before.kit.model('big', { vramBytes: 20 * GB });
    const after = before.kit.reborn(new PoolKit());
    forgets(after, before.worker);
    after.ask('k', 'big');
    after.report('p');
    assert.deepEqual([after.workers(), after.job('j').open?.state], [['m running'], 'accepted']);
  });

  test('is dead if an operator says so', () => {
    const { kit, worker } = running();
    const bury = (): unknown => kit.step({ type: 'evict', worker, by: 'ops', isDead: true }).reply;
    assert.equal((bury() as { code?: string }).code, 'ILLEGAL_STATE', 'its pool shows it');
    const pool = kit.pools.get('p')!;
    pool.registry = 'another memory';
    pool.version++;
    kit.dies('p', worker);
    assert.equal(kit.state('j'), 'running');
    bury();
    assert.equal(kit.state('j'), 'queued');
  });

  test('leaves the job to its on_unknown: a paid one is held, and not bought again', () => {
    const afterDeath = (fields: Parameters<PoolKit['ask']>[2], paid: boolean): string => {
      const { kit, worker } = running(fields);
      kit.set('p', worker, { paid });
      kit.report('p');
      kit.dies('p', worker);
      return `${kit.state('j')} ${kit.job('j').open?.state ?? 'closed'}`;
    };
    assert.equal(afterDeath({}, true), 'stale unknown');
    assert.equal(afterDeath({}, false), 'queued closed');
    assert.equal(afterDeath({ on_unknown: 'retry' }, true), 'queued closed');
    assert.equal(afterDeath({ on_unknown: 'fail' }, false), 'dead closed');
    assert.equal(afterDeath({ on_unknown: 'hold' }, false), 'stale unknown');
  });

  test('ends a job whose cancel was ordered', () => {
    const { kit, worker } = running();
    kit.set('p', worker, { paid: true });
    kit.report('p');
    kit.cancel('j');
    kit.dies('p', worker);
    assert.deepEqual([kit.state('j'), kit.job('j').open], ['cancelled', undefined]);
  });

  test('fails a job that has produced output, unless after_output allows a retry', () => {
    const afterDeath = (fields: Parameters<PoolKit['ask']>[2]): string => {
      const { kit, worker } = running(fields);
      kit.step({ type: 'output', token: kit.token('j') });
      kit.dies('p', worker);
      return `${kit.state('j')} ${kit.job('j').job.error?.code ?? ''}`;
    };
    assert.equal(afterDeath({ priority: 'interactive' }), 'dead UNKNOWN_OUTCOME');
    assert.equal(afterDeath({ priority: 'interactive', after_output: 'retry' }), 'queued UNKNOWN_OUTCOME');
    assert.equal(afterDeath({ priority: 'batch' }), 'queued UNKNOWN_OUTCOME');
    assert.equal(afterDeath({ priority: 'batch', after_output: 'fail' }), 'dead UNKNOWN_OUTCOME');
    const { kit, worker } = running({ priority: 'interactive' });
    kit.dies('p', worker);
    assert.equal(kit.state('j'), 'queued', 'it had produced no output');
  });
});

describe('a pool that does not answer', () => {
  test('is declared gone by an operator only: then its jobs are retried elsewhere', () => {
    const { kit } = running();
    const forget = (): unknown =>
      kit.step({ type: 'pool-order', id: 'p', order: { is: 'forget' }, by: 'ops' }).reply;
    assert.equal((forget() as { code?: string }).code, 'ILLEGAL_STATE');
    kit.step({ type: 'pool-lost', id: 'p' });
    kit.pool('q', [24]);
    kit.pass(100_000);
    assert.equal(kit.state('j'), 'running');
    assert.equal(forget(), undefined);
    kit.pass(1000);
    kit.obey();
    assert.match(kit.workerOf('j'), /^q\//);
    assert.equal((forget() as { code?: string }).code, 'NOT_FOUND');
  });

  test('gets no jobs, and the jobs that run there are not run again', () => {
    const { kit } = running();
    kit.ask('k', 'm');
    kit.step({ type: 'pool-lost', id: 'p' });
    kit.pass(200_000);
    assert.equal(kit.state('j'), 'running');
    kit.end('j', SUCCESS);
    assert.equal(kit.state('k'), 'queued', 'its worker is free, and its pool silent');
    assert.equal(kit.obey().length, 0, 'nothing is ordered of it');
    kit.report('p');
    assert.equal(kit.state('k'), 'claimed');
  });

  test('[ORCH-1030] is not used in decisions before its first report', () => {
    const kit = new PoolKit();
    kit.model('m');
    kit.ask('j', 'm');
    assert.deepEqual(kit.workers(), [], 'nothing is known of any device');
    kit.pool('p', [24]);
    assert.deepEqual(kit.workers(), ['m starting']);
    kit.obey();
    assert.equal(kit.state('j'), 'claimed');
    kit.accept('j');
    kit.end('j', SUCCESS);
    kit.model('idle');
    kit.ask('i', 'idle');
    kit.obey();
    kit.accept('i');
    kit.end('i', SUCCESS);
    kit.step({ type: 'pool-lost', id: 'p' });
    for (const [at, model] of ['m', 'other'].entries()) {
      kit.model(model);
      kit.ask(`k${at}`, model);
    }
    kit.pass(3_600_000);
    assert.deepEqual([kit.state('k0'), kit.state('k1')], ['queued', 'queued']);
    assert.deepEqual(kit.workers(), ['idle running', 'm running'], 'nothing is started or evicted there');
    // Of a pool that is awaited nothing is known: it may have a larger device.
    kit.model('huge', { vramBytes: 100_000_000_000 });
    kit.step({ type: 'pool-awaited', name: 'late', awaited: true });
    kit.ask('h', 'huge');
    assert.equal(kit.state('h'), 'queued');
    kit.report('p');
    assert.equal(kit.state('k0'), 'claimed');
  });
});

test('[ORCH-1004] every status of a worker is handled, and only a ready or busy one is given jobs', () => {
  assert.deepEqual([...WORKER_STATUSES], ['starting', 'ready', 'busy', 'draining', 'failed']);
  /** Whether a job is given to a worker that reports this status. */
  const isUsed = (status: (typeof WORKER_STATUSES)[number]): boolean => {
    const { kit, worker } = running();
    kit.end('j', SUCCESS);
    kit.set('p', worker, { status });
    kit.report('p');
    kit.ask('k', 'm');
    return kit.state('k') === 'claimed';
  };
  assert.deepEqual(WORKER_STATUSES.map(isUsed), [false, true, true, false, false]);
});

test('[ORCH-1004] a worker moves from status to status, and its record follows', () => {
  type Status = (typeof WORKER_STATUSES)[number];
  const paths: readonly [path: readonly Status[], becomes: string | undefined][] = [
    [['starting'], 'starting'],
    [['starting', 'ready'], 'running'],
    [['starting', 'failed'], 'stopping'],
    [['starting', 'ready', 'busy'], 'running'],
    [['starting', 'ready', 'busy', 'ready'], 'running'],
    [['starting', 'ready', 'draining'], 'draining'],
    [['starting', 'ready', 'busy', 'draining'], 'draining'],
    [['starting', 'ready', 'failed'], 'stopping'],
    [['starting', 'ready', 'busy', 'failed'], 'stopping'],
    [['starting', 'ready', 'draining', 'failed'], 'stopping'],
  ];
  for (const [path, becomes] of paths) {
    const kit = new PoolKit();
    kit.pool('p', [24]);
    kit.model('m');
    kit.ask('j', 'm');
    const [[id, record]] = [...kit.engine.state.workers.entries()] as [[string, WorkerRecord]];
    kit.carryOut('start', id, record);
    for (const status of path) {
      kit.set('p', id, { status });
      kit.report('p');
    }
    assert.equal(kit.engine.state.workers.get(id)?.state, becomes, path.join(' → '));
    const isGivenJobs = kit.state('j') === 'claimed';
    assert.equal(isGivenJobs, path.includes('ready'), `${path.join(' → ')}: its job`);
  }
});

test('[ORCH-1004] a worker that its manager has drained is not given jobs again, whatever it reports later', () => {
  const { kit, worker } = running();
  kit.set('p', worker, { status: 'draining' });
  kit.report('p');
  assert.equal(kit.engine.state.workers.get(worker)?.state, 'draining');
  kit.set('p', worker, { status: 'ready' });
  kit.report('p');
  kit.end('j', SUCCESS);
  kit.ask('k', 'm');
  assert.equal(kit.state('k'), 'queued');
  kit.pass(1);
  assert.equal(kit.engine.state.workers.get(worker)?.state, 'stopping', 'it goes once it is idle');
});

test('[ORCH-1004] no status brings a worker back that has failed, and one that starts anew waits until it is ready', () => {
  const { kit, worker } = running();
  kit.end('j', SUCCESS);
  kit.ask('k', 'm', { not_before: kit.now + 1000 });
  const reports = (status: (typeof WORKER_STATUSES)[number]): void => {
    kit.set('p', worker, { status });
    kit.report('p');
  };
  reports('starting');
  kit.pass(1000);
  assert.equal(kit.state('k'), 'queued', 'it is not ready, whatever it was before');
  reports('ready');
  assert.equal(kit.state('k'), 'claimed');
  kit.accept('k');
  kit.end('k', SUCCESS);
  reports('failed');
  assert.equal(kit.engine.state.workers.get(worker)?.state, 'stopping');
  kit.ask('l', 'm');
  for (const status of ['ready', 'busy', 'starting', 'draining', 'ready'] as const) {
    reports(status);
    assert.equal(kit.engine.state.workers.get(worker)?.state, 'stopping', status);
    assert.equal(kit.state('l'), 'queued', status);
  }
});

test('a worker at an address that is not allowed is listed but not used', () => {
  const { kit, worker } = running();
  kit.end('j', SUCCESS);
  kit.set('p', worker, { unusable: 'its address is outside of what is allowed' });
  kit.report('p');
  kit.ask('k', 'm');
  assert.equal(kit.state('k'), 'queued');
});

test('a worker that the brain has not ordered is used like any other', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  const ref = kit.model('m');
  kit.carryOut('start', 'stranger', {
    v: 2,
    pool: 'p',
    device: 0,
    modelRef: ref,
    vramBytes: 1,
    vramGuessed: undefined,
    slots: 1,
    contextLength: 8192,
    state: 'starting',
    registry: undefined,
    at: 0,
    why: { is: 'demand' },
    tries: 1,
  });
  kit.report('p');
  kit.ask('j', 'm');
  assert.equal(kit.workerOf('j'), 'p/stranger');
});

test('a worker that two pools report stays with the first, and moves with its pool when that is renamed', () => {
  const { kit, worker } = running();
  const shown = kit.pools.get('p')!.workers.get(worker)!;
  kit.pool('copy', [24]);
  kit.pools.get('copy')!.workers.set(worker, { ...shown, status: 'failed' });
  kit.report('copy');
  assert.deepEqual([kit.workers(), kit.state('j')], [['m running'], 'running']);
  assert.deepEqual([...kit.engine.queue.fleet.backends.keys()], [`p/${worker}`]);
  kit.end('j', SUCCESS);
  kit.step({ type: 'pool-lost', id: 'p' });
  kit.pool('new', [24]);
  kit.pools.get('new')!.workers.set(worker, shown);
  kit.report('new');
  kit.ask('k', 'm');
  kit.accept('k');
  assert.equal(kit.workerOf('k'), `new/${worker}`);
  kit.dies('new', worker);
  assert.equal(kit.state('k'), 'queued', 'its worker has died, and that is seen');
});

test('the guessed memory of a model is corrected by what its workers report', () => {
  for (const [vramGuessed, learned] of [
    [true, 15],
    [undefined, 10],
  ] as const) {
    const kit = new PoolKit();
    kit.pool('p', [24]);
    kit.model('m', { vramBytes: 10 * GB, vramGuessed });
    kit.ask('j', 'm');
    const [order] = dueWorkers(kit.engine.state);
    kit.carryOut('start', order!.id, order!.record);
    kit.set('p', order!.id, { vramBytes: 15 * GB });
    kit.report('p');
    assert.equal(kit.engine.state.catalog.get('m')?.vramBytes, learned * GB);
  }
});

test('a reload ends when its worker is ready: a worker that is evicted after that is not started again', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m');
  kit.step({ type: 'pool-order', id: 'p', order: { is: 'reload', model: 'm' }, by: 'ops' });
  kit.pass(1000);
  assert.deepEqual(kit.obey(), ['start m']);
  const [[worker] = assert.fail()] = kit.engine.state.workers.entries();
  kit.step({ type: 'evict', worker, by: 'ops' });
  kit.pass(1000);
  assert.deepEqual(kit.obey(), ['stop m']);
  kit.pass(60_000);
  assert.deepEqual(kit.workers(), []);
});
