import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { loadConfig } from '../../config/load.ts';
import { causeText } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import { dueWorkers } from '../engine/due.ts';
import { explain } from '../scheduling/explain.ts';

const finish = (kit: PoolKit, id: string): void => {
  if (kit.job(id).open?.state === 'intended') kit.accept(id);
  kit.end(id, SUCCESS);
};

const causes = (kit: PoolKit): string[] =>
  kit.log.filter(({ change }) => change.kind === 'worker').map(({ change }) => causeText(change.cause));

describe('a worker that is needed', () => {
  test('[ORCH-1040] is ordered on a device with enough free memory; its job is placed when it is ready', () => {
    const kit = new PoolKit({ region: 'near' });
    kit.pool('small', [8]);
    // A device that is larger and nearer, and whose memory others use.
    kit.pool('full', [80], { usedGb: 75, region: 'near' });
    kit.pool('large', [4, 24]);
    const ref = kit.model('m');
    kit.ask('a', 'm');
    const [order] = dueWorkers(kit.engine.state);
    assert.deepEqual(
      [order?.kind, order?.record.pool, order?.record.device, order?.record.modelRef],
      ['start', 'large', 1, ref],
    );
    assert.equal(kit.state('a'), 'queued', 'nothing is placed before it is ready');
    kit.model('n', { vramBytes: 20 * GB });
    kit.ask('b', 'n');
    assert.equal(dueWorkers(kit.engine.state).length, 1, 'the memory of an ordered worker is not free');
    kit.carryOut('start', order!.id, order!.record);
    kit.set('large', order!.id, { status: 'starting' });
    kit.report('large');
    assert.equal(kit.state('a'), 'queued');
    kit.set('large', order!.id, { status: 'ready' });
    kit.report('large');
    assert.deepEqual([kit.state('a'), kit.workerOf('a')], ['claimed', `large/${order!.id}`]);
  });

  test('is not started in a pool whose worker with this model cannot be used, but in another one', () => {
    const kit = new PoolKit({ minResidentMs: 0 });
    kit.pool('p', [24]);
    kit.model('m');
    kit.ask('a', 'm');
    const [order] = dueWorkers(kit.engine.state);
    kit.carryOut('start', order!.id, order!.record);
    kit.set('p', order!.id, { unusable: 'its address is odd' });
    for (let time = 0; time < 3; time++) {
      kit.report('p');
      assert.deepEqual(kit.obey(), []);
      kit.pass(1000);
    }
    assert.deepEqual([kit.workers(), kit.state('a')], [['m running'], 'queued']);
    const waits = explain(kit.engine.state, kit.job('a'));
    assert.equal(waits?.text, 'its worker cannot be used: its address is odd');
    kit.pool('q', [24]);
    assert.deepEqual(kit.obey(), ['start m']);
    assert.match(kit.workerOf('a'), /^q\//);
  });

  test('is started with the file that the waiting jobs were admitted for, even if their model has changed since', () => {
    const kit = new PoolKit();
    kit.pool('p', [24]);
    const ref = kit.model('m');
    kit.model('other', { vramBytes: 20 * GB });
    kit.ask('x', 'other');
    kit.obey();
    kit.accept('x');
    kit.ask('a', 'm');
    kit.model('m', { ref: 'file:/models/m-2.gguf' });
    finish(kit, 'x');
    kit.pass(1000);
    kit.obey();
    assert.equal(kit.state('a'), 'claimed');
    assert.deepEqual(
      [...kit.engine.state.workers.values()].map((each) => each.modelRef),
      [ref],
    );
  });

  test('is started for a lane that the running workers cannot serve: another label, a longer context', () => {
    const kit = new PoolKit();
    kit.pool('us', [24], { region: 'us' });
    kit.pool('eu', [24], { region: 'eu' });
    kit.model('m', { contextLength: 4096 });
    kit.ask('a', 'm', { labels: { region: 'us' } });
    kit.obey();
    kit.accept('a');
    kit.ask('b', 'm', { labels: { region: 'eu' } });
    kit.obey();
    assert.match(kit.workerOf('b'), /^eu\//);
    kit.model('m', { contextLength: 32_768 });
    kit.ask('c', 'm', { contextTokens: 20_000 });
    kit.obey();
    assert.equal(kit.state('c'), 'claimed');
  });

  test('is started only once if it has less context than the catalog says, and the waiting job explains it', () => {
    const kit = new PoolKit();
    kit.pool('p', [200]);
    kit.model('m', { contextLength: 32_768 });
    kit.ask('a', 'm', { contextTokens: 20_000 });
    const [order] = dueWorkers(kit.engine.state);
    kit.carryOut('start', order!.id, order!.record);
    kit.set('p', order!.id, { contextLength: 4096 });
    kit.report('p');
    for (let time = 0; time < 3; time++) {
      kit.pass(1000);
      assert.deepEqual(kit.obey(), []);
    }
    const waits = explain(kit.engine.state, kit.job('a'));
    assert.equal(waits?.text, 'its worker cannot be used: its context is shorter than the catalog says');
  });

  test('is started in another pool if one fails to; the waiting jobs fail when all pools have failed', () => {
    const kit = new PoolKit({ startTries: 2 });
    for (const [at, id] of ['a', 'b', 'c'].entries()) kit.pool(id, [60 - 10 * at]);
    kit.model('m');
    kit.ask('j', 'm');
    const refuse = (...pools: string[]): string[] => {
      const tried: string[] = [];
      for (let [order] = dueWorkers(kit.engine.state); order?.kind === 'start'; ) {
        const { id, record } = order;
        tried.push(record.pool);
        if (!pools.includes(record.pool)) kit.carryOut('start', id, record);
        else kit.step({ type: 'start-failed', worker: id, error: new OrchdError('MODEL_NOT_FOUND').info() });
        kit.report(record.pool);
        [order] = dueWorkers(kit.engine.state);
      }
      return tried;
    };
    assert.deepEqual(refuse('a', 'b'), ['a', 'b', 'c']);
    assert.match(kit.workerOf('j'), /^c\//);
    kit.model('n');
    kit.ask('k', 'n');
    assert.deepEqual(refuse('a', 'b', 'c'), ['a', 'b', 'c']);
    assert.deepEqual([kit.state('k'), kit.job('k').job.error?.code], ['dead', 'MODEL_NOT_FOUND']);
  });

  test('is started however many workers of its model are in pools that do not answer', () => {
    const kit = new PoolKit({ maxWorkersPerModel: 2 });
    kit.model('m');
    for (let n = 0; n < 4; n++) {
      kit.pool(`machine-${n}`, [24]);
      kit.ask(`j${n}`, 'm');
      kit.obey();
      assert.match(kit.workerOf(`j${n}`), new RegExp(`^machine-${n}/`));
      finish(kit, `j${n}`);
      kit.step({ type: 'pool-lost', id: `machine-${n}` });
    }
  });

  test('is started once for all waiting jobs', () => {
    const kit = new PoolKit();
    kit.pool('p', [80]);
    kit.model('m', { slots: 4 });
    for (let n = 0; n < 50; n++) kit.ask(`j${n}`, 'm', { priority: n % 2 ? 'interactive' : 'batch' });
    for (let n = 0; n < 5; n++) kit.step({ type: 'tick' });
    assert.deepEqual(kit.workers(), ['m starting']);
    assert.deepEqual(kit.obey(), ['start m']);
    assert.equal(kit.claims.length, 4);
  });

  test('[ORCH-1041] is never ordered where no device is large enough: the job is refused at once', () => {
    const kit = new PoolKit();
    kit.pool('p', [8, 12]);
    kit.model('huge', { vramBytes: 13 * GB });
    kit.model('fits', { vramBytes: 12 * GB });
    for (const priority of ['batch', 'interactive'] as const) {
      const refused = kit.trySubmit('a', { type: 'inference', model: 'huge', priority });
      assert.ok(refused instanceof OrchdError);
      assert.deepEqual([refused.code, refused.retriable], ['INSUFFICIENT_VRAM', false]);
    }
    kit.ask('b', 'fits');
    assert.deepEqual(kit.obey(), ['start fits']);
    // A model that fits the device, but not beside the present worker, waits: room can be made.
    kit.model('also', { vramBytes: 12 * GB });
    kit.accept('b');
    kit.ask('c', 'also');
    assert.equal(kit.state('c'), 'queued');
    // So does a job that was admitted before anything was known of the devices; no start is ordered for it.
    const early = new PoolKit();
    early.model('huge', { vramBytes: 13 * GB });
    early.ask('d', 'huge');
    early.pool('p', [8, 12]);
    early.pass(60_000);
    assert.deepEqual([dueWorkers(early.engine.state), early.workers()], [[], []]);
  });

  test('[ORCH-1042] is started once more when it is not ready in time; then the waiting jobs fail', () => {
    assert.equal(loadConfig({}).pools.startTimeoutMs, 60_000);
    const kit = new PoolKit({ startTimeoutMs: 60_000 });
    kit.pool('p', [80]);
    const ref = kit.model('m');
    kit.ask('a', 'm');
    kit.ask('b', 'm', { priority: 'interactive' });
    // The manager shows the first worker, which never gets ready; it never shows the second.
    const [order] = dueWorkers(kit.engine.state);
    kit.carryOut('start', order!.id, order!.record);
    kit.set('p', order!.id, { status: 'starting' });
    kit.report('p');
    kit.pass(74_000);
    assert.deepEqual(kit.workers(), ['m starting'], 'a manager gives up by itself after 60 s');
    kit.pass(2000);
    assert.deepEqual(kit.workers(), ['m starting', 'm stopping']);
    assert.deepEqual([kit.state('a'), kit.state('b')], ['queued', 'queued']);
    kit.pass(76_000);
    assert.deepEqual([kit.state('a'), kit.state('b')], ['dead', 'dead']);
    assert.equal(kit.job('a').job.error?.code, 'WORKER_START_TIMEOUT');
    assert.equal(kit.job('a').job.error?.retriable, true);
    // No start is tried during the cooldown; after it, one is.
    kit.ask('c', 'm');
    kit.pass(1000);
    assert.equal(
      [...kit.engine.state.workers.of(ref)].filter(([, { state }]) => state === 'starting').length,
      0,
    );
    kit.pass(30_000);
    assert.equal(
      [...kit.engine.state.workers.of(ref)].filter(([, { state }]) => state === 'starting').length,
      1,
    );
  });

  test('[ORCH-1042] is given up after the configured time, also when its pool has fallen silent', () => {
    const kit = new PoolKit({ startTimeoutMs: 4000 });
    for (const id of ['p', 'q']) kit.pool(id, [80]);
    kit.model('m');
    kit.ask('a', 'm');
    const [order] = dueWorkers(kit.engine.state);
    kit.step({ type: 'pool-lost', id: order!.record.pool });
    kit.pass(6000);
    assert.deepEqual(kit.obey(), ['start m'], 'in the other pool');
    assert.equal(kit.state('a'), 'claimed');
  });

  test('that its manager cannot start is stopped and started again; then its job fails with the reason', () => {
    const kit = new PoolKit();
    kit.pool('p', [80]);
    kit.broken.add(kit.model('m'));
    kit.ask('a', 'm');
    const done = kit.obey();
    assert.deepEqual([...done].sort(), ['start m', 'start m', 'stop m', 'stop m']);
    assert.deepEqual([kit.state('a'), kit.job('a').job.error?.code], ['dead', 'WORKER_START_FAILED']);
    assert.deepEqual(kit.workers(), []);
  });

  test('[ORCH-1033] [ORCH-1120] is started, or waited for until a pool can start it; meanwhile an interactive job is refused with POOL_UNAVAILABLE', () => {
    const kit = new PoolKit();
    kit.model('m');
    const refused = kit.trySubmit('person', { type: 'inference', model: 'm', priority: 'interactive' });
    assert.deepEqual(refused instanceof OrchdError && [refused.code, refused.retriable], [
      'POOL_UNAVAILABLE',
      true,
    ]);
    kit.ask('batch', 'm');
    kit.pass(600_000);
    assert.equal(kit.state('batch'), 'queued');
    kit.pool('p', [24]);
    kit.obey();
    assert.equal(kit.state('batch'), 'claimed');
    kit.step({ type: 'pool-lost', id: 'p' });
    kit.ask('later', 'm', { priority: 'batch' });
    assert.equal(kit.state('later'), 'queued');
    const also = kit.trySubmit('too late', { type: 'inference', model: 'm', priority: 'interactive' });
    assert.ok(
      also instanceof OrchdError && also.code === 'POOL_UNAVAILABLE',
      'the pool of the only worker is lost',
    );
    assert.equal(kit.submit('b', { type: 'inference', model: 'm' }).predictedStartMs, undefined);
    kit.model('n');
    kit.ask('waits', 'n');
    kit.pass(60_000);
    kit.report('p');
    assert.deepEqual(kit.obey(), ['start n'], 'as soon as the pool answers again');
    assert.equal(kit.state('waits'), 'claimed');
  });
});

describe('a worker that is in the way', () => {
  /** Three models, and a device that holds two of them. */
  function crowded(eviction: 'lru' | 'lfu' | 'manual', settings = {}): PoolKit {
    const kit = new PoolKit({ eviction, minResidentMs: 10_000, drainAfterMs: 20_000, ...settings });
    kit.pool('p', [24]);
    for (const id of ['a', 'b', 'c']) kit.model(id, { vramBytes: 10 * GB });
    return kit;
  }

  function used(kit: PoolKit, model: string, times: number): void {
    for (let n = 0; n < times; n++) {
      const id = kit.ask(`${model}${kit.log.length}`, model);
      kit.obey();
      finish(kit, id);
      kit.pass(1000);
    }
  }

  test('[ORCH-1050] is the least recently used, the least frequently used, or with `manual` none', () => {
    const story = (kit: PoolKit): PoolKit => {
      used(kit, 'a', 1);
      used(kit, 'b', 9);
      used(kit, 'a', 1);
      kit.pass(20_000);
      kit.ask('c', 'c');
      return kit;
    };
    const lru = story(crowded('lru'));
    assert.deepEqual(lru.workers(), ['a running', 'b stopping']);
    const lfu = story(crowded('lfu'));
    assert.deepEqual(lfu.workers(), ['a stopping', 'b running']);
    const manual = story(crowded('manual'));
    manual.pass(3_600_000);
    assert.deepEqual(manual.workers(), ['a running', 'b running']);
    const [id] = [...manual.engine.state.workers.entries()].find(([, { modelRef }]) =>
      modelRef.includes('/b.'),
    )!;
    manual.step({ type: 'evict', worker: id, by: 'ops' });
    assert.deepEqual(manual.obey(), ['stop b', 'start c']);
    assert.equal(manual.state('c'), 'claimed');
  });

  test('is the least used one over all devices', () => {
    const kit = new PoolKit({ minResidentMs: 0 });
    kit.pool('p', [12, 12, 12]);
    for (const id of ['a', 'b', 'c', 'd']) kit.model(id);
    for (const id of ['a', 'b', 'c', 'b', 'a', 'c', 'a']) used(kit, id, 1);
    kit.ask('d', 'd');
    assert.deepEqual(kit.workers(), ['a running', 'b stopping', 'c running']);
  });

  test('[ORCH-1051] is ordered to stop; its memory counts as free when its manager no longer reports it', () => {
    const kit = crowded('lru');
    used(kit, 'a', 1);
    used(kit, 'b', 1);
    kit.pass(20_000);
    kit.ask('c', 'c');
    const [order] = dueWorkers(kit.engine.state);
    assert.deepEqual([order?.kind, kit.engine.state.catalog.find(order!.record.modelRef)?.id], ['stop', 'a']);
    for (let n = 0; n < 5; n++) kit.pass(1000);
    assert.deepEqual(kit.workers(), ['a stopping', 'b running'], 'nothing is started before it is gone');
    assert.deepEqual(kit.obey(), ['stop a', 'start c']);
    assert.ok(causes(kit).includes('stopping:evicted (lru) for c'));
    assert.ok(causes(kit).includes('stopped:evicted (lru) for c'));
  });

  test('[ORCH-1052] is never stopped while it has jobs: it is drained first, or waited for', () => {
    const kit = crowded('lru');
    kit.model('b', { vramBytes: 10 * GB, slots: 2 });
    kit.ask('ja', 'a');
    kit.ask('jb', 'b');
    kit.obey();
    for (const id of ['ja', 'jb']) kit.accept(id);
    kit.pass(5000);
    kit.ask('jc', 'c');
    kit.ask('ja2', 'a');
    kit.pass(14_000);
    assert.deepEqual(
      kit.workers(),
      ['a running', 'b running'],
      'both are in use, and jc has not waited for drainAfterMs yet',
    );
    kit.pass(10_000);
    const draining = kit.workers().filter((each) => each.endsWith('draining'));
    assert.equal(draining.length, 1);
    const victim = draining[0]!.slice(0, 1);
    assert.equal(victim, 'b', 'ja2 waits for a');
    kit.ask('jb2', 'b');
    assert.equal(kit.state('jb2'), 'queued', 'it takes nothing new');
    kit.cancel('jb2');
    kit.obey();
    kit.pass(60_000);
    assert.equal(kit.state('jb'), 'running', 'it finishes what it has');
    assert.deepEqual(kit.workers(), ['a running', 'b draining']);
    finish(kit, 'jb');
    assert.deepEqual(kit.obey(), ['stop b', 'start c']);
    assert.equal(kit.state('jc'), 'claimed');
    assert.equal(kit.state('ja'), 'running');
  });

  test('[ORCH-1052] is not stopped while it has jobs because it is old, or by an operator', () => {
    const kit = crowded('lru', { idleUnloadMs: 5000 });
    kit.ask('ja', 'a');
    kit.obey();
    kit.accept('ja');
    kit.pass(60_000);
    assert.deepEqual(kit.workers(), ['a running']);
    const [[id] = assert.fail()] = [...kit.engine.state.workers.entries()];
    kit.step({ type: 'evict', worker: id, by: 'ops' });
    assert.deepEqual(kit.obey(), ['drain a']);
    kit.pass(1000);
    assert.deepEqual([kit.workers(), kit.state('ja')], [['a draining'], 'running']);
    finish(kit, 'ja');
    assert.deepEqual(kit.obey(), ['stop a']);
  });

  test('stays for minResidentMs when it is used: two models do not keep evicting each other', () => {
    const kit = new PoolKit({ minResidentMs: 10_000 });
    kit.pool('p', [12]);
    kit.model('a');
    kit.model('b');
    kit.ask('first', 'a');
    kit.obey();
    finish(kit, 'first');
    kit.ask('second', 'b');
    assert.deepEqual(
      kit.obey(),
      ['stop a', 'start b'],
      'b was not evicted within minResidentMs, so it need not wait',
    );
    finish(kit, 'second');
    let swaps = 0;
    for (let n = 0; n < 60; n++) {
      kit.ask(`j${n}`, n % 2 ? 'a' : 'b');
      swaps += kit.obey().filter((done) => done.startsWith('start')).length;
      for (const id of [...kit.engine.state.jobs.keys()]) if (kit.job(id).open) finish(kit, id);
      kit.pass(1000);
    }
    assert.ok(swaps >= 4 && swaps <= 8, `${swaps} starts in 60 s`);
  });

  test('is stopped when it has been idle for idleUnloadMs, and not before', () => {
    const kit = new PoolKit({ idleUnloadMs: 100_000 });
    kit.pool('p', [24]);
    kit.model('a');
    kit.ask('j', 'a');
    kit.obey();
    kit.pass(200_000);
    assert.deepEqual(kit.workers(), ['a running']);
    finish(kit, 'j');
    kit.pass(99_000);
    assert.deepEqual(kit.workers(), ['a running']);
    kit.pass(2000);
    assert.deepEqual(kit.workers(), ['a stopping']);
    assert.ok(causes(kit).includes('stopping:idle'));
  });
});

describe('a second worker of a model', () => {
  test('is started when the waiting jobs would wait long, and only where there is room', () => {
    const kit = new PoolKit({ scaleUpWaitMs: 10_000 });
    kit.pool('p', [24]);
    kit.model('a', { vramBytes: 10 * GB });
    kit.ask('first', 'a');
    kit.obey();
    kit.accept('first');
    kit.pass(5000);
    kit.end('first', SUCCESS);
    for (let n = 0; n < 3; n++) kit.ask(`j${n}`, 'a');
    assert.deepEqual(kit.workers(), ['a running'], 'two wait for 5 s each');
    for (let n = 3; n < 9; n++) kit.ask(`j${n}`, 'a');
    kit.pass(1000);
    assert.deepEqual(kit.workers(), ['a running', 'a starting']);
    kit.obey();
    kit.pass(60_000);
    assert.deepEqual(kit.workers(), ['a running', 'a running'], 'a third one does not fit');
  });
});
