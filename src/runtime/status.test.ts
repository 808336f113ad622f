import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PoolKit } from '../../test/fakes/pool-engine.ts';
import type { StatusModel } from '../model/http/status.ts';
import { statusView } from './status.ts';

const modelOf = (kit: PoolKit, name: string): StatusModel => {
  const { models } = statusView(kit.engine, 'default', kit.now, () => true);
  return models.find((model) => model.name === name) as StatusModel;
};

test('a model of the catalog is idle, starting, ready or failing, with its workers, slots and waiting jobs', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m');
  assert.deepEqual([modelOf(kit, 'm').state, modelOf(kit, 'm').workers], ['idle', 0]);
  kit.ask('j', 'm');
  assert.deepEqual([modelOf(kit, 'm').state, modelOf(kit, 'm').waiting], ['starting', 1]);
  kit.obey();
  const { state, workers, slots, used, waiting, source } = modelOf(kit, 'm');
  assert.deepEqual([state, workers, used, waiting, source], ['ready', 1, 1, 0, 'catalog']);
  assert.ok(slots >= 1);
  kit.step({ type: 'pool-lost', id: 'p' });
  assert.equal(modelOf(kit, 'm').workers, 0, 'workers of a pool that does not answer do not count');
});

test('jobs whose last change is not durable are counted, and not listed', () => {
  const kit = new PoolKit();
  kit.pool('p', [24]);
  kit.model('m');
  kit.ask('j', 'm');
  kit.obey();
  kit.accept('j');
  const view = (isDurable: boolean) => statusView(kit.engine, 'default', kit.now, () => isDurable);
  assert.deepEqual([view(true).jobs.running, view(true).running[0]?.job_id], [1, 'j']);
  assert.deepEqual([view(false).jobs.running, view(false).running], [1, []]);
  const other = statusView(kit.engine, 'acme', kit.now, () => true);
  assert.deepEqual([other.jobs.running, other.running, other.models[0]?.used], [0, [], undefined]);
});

test('a model of upstreams has their names and its context, and is down with the reason when all have an outage', () => {
  const kit = new PoolKit();
  const upstream = (name: string, length: number | undefined, outage?: string): void =>
    kit.backend(name, {
      kind: 'upstream',
      types: ['inference'],
      hasForeignModels: true,
      models: ['m', 'mine'],
      contextLengths: new Map(length === undefined ? [] : [['m', length]]),
      outage,
    });
  kit.model('mine');
  upstream('a', 5000);
  upstream('b', 9000, 'it does not answer');
  const { state, workers, context_length, upstreams, problem } = modelOf(kit, 'm');
  assert.deepEqual([state, workers, context_length, upstreams], ['ready', 1, 9000, ['a', 'b']]);
  assert.equal(problem, undefined);
  // The catalog has another model of this name.
  assert.deepEqual([modelOf(kit, 'mine').state, modelOf(kit, 'mine').upstreams], ['idle', undefined]);
  upstream('a', undefined, 'it restarts');
  assert.deepEqual([modelOf(kit, 'm').state, modelOf(kit, 'm').workers], ['down', 0]);
  assert.equal(
    modelOf(kit, 'm').problem,
    '"a" cannot be used: it restarts; "b" cannot be used: it does not answer',
  );
});
