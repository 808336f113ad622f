/** What workers are measured to use: how it becomes the size of their model, and how starts count on it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { dueWorkers } from '../engine/due.ts';

const sizeOf = (kit: PoolKit, model: string): number => kit.engine.state.catalog.get(model)!.vramBytes / GB;

/** A ready worker of the model "m", whose size is an estimate of 10 GB. */
function readyWorker(): { kit: PoolKit; worker: string } {
  const kit = new PoolKit();
  kit.pool('p', [80]);
  kit.model('m', { vramGuessed: true });
  kit.ask('j', 'm');
  kit.obey();
  const [[worker] = assert.fail()] = kit.engine.state.workers.entries();
  return { kit, worker };
}

test('a figure that was measured after the worker was ready raises the guess, and noise does not', () => {
  const { kit, worker } = readyWorker();
  const report = (gb: number): void => {
    kit.set('p', worker, { vramBytes: gb * GB });
    kit.report('p');
  };
  report(10.1);
  assert.equal(sizeOf(kit, 'm'), 10);
  report(15);
  assert.equal(sizeOf(kit, 'm'), 15);
  report(15.1);
  report(9);
  assert.equal(sizeOf(kit, 'm'), 15);
});

test('a registration with the same estimate keeps what was measured; one of another size does not', () => {
  const { kit, worker } = readyWorker();
  kit.set('p', worker, { vramBytes: 15 * GB });
  kit.report('p');
  kit.model('m', { vramGuessed: true });
  assert.equal(sizeOf(kit, 'm'), 15, 'the catalog file is imported again');
  kit.model('m', { vramGuessed: true, contextLength: 4096 });
  assert.equal(sizeOf(kit, 'm'), 10, 'a shorter context needs less');
  kit.model('m', { vramBytes: 12 * GB });
  assert.equal(sizeOf(kit, 'm'), 12, 'an operator knows better');
});

test('while a worker starts, what is known of its model counts, not the lower estimate of its manager', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m', { vramBytes: 20 * GB, vramGuessed: true });
  kit.model('other', { vramBytes: 10 * GB });
  kit.ask('j', 'm');
  const [order] = dueWorkers(kit.engine.state);
  kit.carryOut('start', order!.id, order!.record);
  kit.set('p', order!.id, { status: 'starting', registry: '', vramBytes: GB });
  kit.report('p');
  kit.ask('k', 'other');
  assert.deepEqual(kit.workers(), ['m starting'], 'there is no room for the other');
  kit.set('p', order!.id, { status: 'ready', registry: 'r', vramBytes: 8 * GB });
  kit.pools.get('p')!.version++;
  kit.report('p');
  assert.deepEqual(kit.workers(), ['m running', 'other starting'], 'it needs less than was known');
});

test('a start that fails for a reload is not repeated without a pause', () => {
  const kit = new PoolKit({ startTries: 2, startCooldownMs: 30_000 });
  kit.pool('p', [24]);
  kit.broken.add(kit.model('m'));
  kit.step({ type: 'pool-order', id: 'p', order: { is: 'reload', model: 'm' }, by: 'ops' });
  let starts = 0;
  for (let second = 0; second < 60; second++) {
    kit.pass(1000);
    starts += kit.obey().filter((what) => what === 'start m').length;
  }
  assert.ok(starts >= 2 && starts <= 2 * 3, `${starts} starts in a minute`);
});

test('nor is one that fails ahead of the demand', () => {
  const kit = new PoolKit({ prewarm: true, startTries: 2, startCooldownMs: 3_600_000 });
  kit.pool('p', [24]);
  const ref = kit.model('m');
  for (let second = 0; second < 120; second++) {
    kit.ask(`j${second}`, 'm');
    kit.obey();
    kit.accept(`j${second}`);
    kit.end(`j${second}`, SUCCESS);
    kit.pass(1000);
  }
  kit.broken.add(ref);
  const [[worker] = assert.fail()] = kit.engine.state.workers.entries();
  kit.dies('p', worker);
  const starts: string[] = [];
  for (let second = 0; second < 120; second++) {
    starts.push(...kit.obey().filter((what) => what === 'start m'));
    kit.pass(1000);
  }
  assert.equal(starts.length, 2);
});
