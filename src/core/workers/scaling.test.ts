import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { type Scaling, scalingOf } from './scaling.ts';

const TTL_MS = 15_000;

class Kit extends EngineKit {
  register(name: string, pool = 'p', types = ['t'], slots = 2): void {
    const declared = { pool, name, token: `${pool}/${name}`, slots, types, models: undefined, labels: {} };
    this.step({
      type: 'consumer',
      declared: { ...declared, paid: false, listens: undefined, ttlMs: TTL_MS },
    });
  }

  fill(jobs: number, type = 't'): void {
    for (let n = 0; n < jobs; n++) this.submit(`${type}${n}`, { type });
  }

  asked(pool = 'p'): Scaling | undefined {
    return scalingOf(this.engine, pool, this.now);
  }
}

test('a pool of consumers says what waits for it, what it runs, and how many consumers had a slot for each job', () => {
  const kit = new Kit();
  kit.register('ann');
  kit.register('bob');
  kit.register('eve', 'other', ['elsewhere']);
  kit.fill(9);
  kit.fill(5, 'elsewhere');
  const { waiting, running, slots, members, wished, kind } = kit.asked() ?? {};
  assert.deepEqual(
    { waiting, running, slots, members, wished, kind },
    {
      waiting: 5,
      running: 4,
      slots: 4,
      members: 2,
      wished: 5,
      kind: 'consumers',
    },
  );
  assert.equal(kit.asked('other')?.waiting, 3);
});

test('the wait is null until a job has been measured, then grows with what waits, and is 0 where nothing does', () => {
  const kit = new Kit();
  kit.register('ann', 'p', ['t'], 1);
  assert.equal(kit.asked()?.predictedWaitMs, 0);
  kit.fill(4);
  assert.equal(kit.asked()?.predictedWaitMs, undefined);
  const finish = (id: string): void => {
    kit.step({ type: 'claim', consumer: 'p/ann', claim: kit.now, atMost: 1, tokens: undefined });
    kit.pass(1000);
    kit.step({ type: 'results', consumer: 'p/ann', results: [{ token: `${id}:1`, outcome: SUCCESS }] });
  };
  finish('t0');
  const few = kit.asked()?.predictedWaitMs ?? 0;
  assert.ok(few >= 1000 && few <= 3000, `${few}`);
  for (let n = 10; n < 40; n++) kit.submit(`more${n}`, { type: 't' });
  assert.ok((kit.asked()?.predictedWaitMs ?? 0) > 10 * few);
});

test('a pool whose consumers are all silent still says what waits for it, so that somebody starts one', () => {
  const kit = new Kit();
  kit.register('ann');
  kit.pass(TTL_MS + 1);
  kit.step({ type: 'tick' });
  for (const id of ['a', 'b', 'c']) kit.submit(id, { type: 't' });
  const { waiting, slots, members, wished } = kit.asked() ?? {};
  assert.deepEqual({ waiting, slots, members, wished }, { waiting: 3, slots: 0, members: 0, wished: 2 });
});

test('the pool of a manager counts the jobs of its workers, and those for which it could start one', () => {
  const kit = new PoolKit();
  kit.model('small');
  kit.model('huge', { vramBytes: 1e12 });
  kit.pool('p', [24]);
  const asked = (pool = 'p') => scalingOf(kit.engine, pool, kit.now);
  assert.deepEqual([asked()?.members, asked()?.waiting, asked()?.wished], [0, 0, 0]);
  for (const id of ['a', 'b', 'c']) kit.ask(id, 'small');
  assert.deepEqual([asked()?.members, asked()?.waiting, asked()?.running], [0, 3, 0]);
  kit.obey();
  const { kind, waiting, running, slots, members, wished } = asked() ?? {};
  assert.deepEqual({ kind, running, slots, members }, { kind: 'workers', running: 1, slots: 1, members: 1 });
  assert.deepEqual([waiting, wished], [2, 3]);
});

test('a pool that nobody has named is unknown', () => {
  const kit = new Kit();
  kit.register('ann');
  assert.equal(kit.asked('q'), undefined);
});
