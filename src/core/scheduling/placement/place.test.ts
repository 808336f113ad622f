import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, SUCCESS } from '../../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../../test/fakes/pool-engine.ts';
import { usedTokens } from '../../../../test/fakes/used-tokens.ts';
import { causeName, causeText } from '../../../model/causes.ts';
import { dueWorkers } from '../../engine/due.ts';
import type { PoolSettings } from '../../settings.ts';

/** Three workers of one model: `a` and `b` in pool p on devices of 24 and 80 GB, `c` far away. */
function three(settings: Partial<PoolSettings> = {}, slots = 2): PoolKit {
  const kit = new PoolKit(settings);
  const ref = kit.model('m', { slots });
  kit.model('other', { slots });
  kit.pool('p', [24, 80], { region: 'near', labels: { disk: 'fast' } });
  kit.pool('q', [40], { region: 'far' });
  const places = { a: ['p', 0], b: ['p', 1], c: ['q', 0] } as const;
  for (const [id, [pool, device]] of Object.entries(places)) {
    kit.carryOut('start', id, {
      ...{
        v: 2,
        pool,
        device,
        modelRef: ref,
        vramBytes: 10 * GB,
        vramGuessed: undefined,
        slots,
        contextLength: 8192,
      },
      ...{ state: 'starting', registry: undefined, at: 0, why: { is: 'demand' }, tries: 1 },
    });
    kit.report(pool);
  }
  return kit;
}

/** The backends that the given number of jobs are placed on, one after the other, none of them ending. */
function places(kit: PoolKit, count: number, fields = {}): string {
  let went = '';
  for (let n = 0; n < count; n++) {
    const id = kit.ask(`j${kit.log.length}`, 'm', fields);
    went += kit.workerOf(id).slice(-1) || '-';
  }
  return went;
}

describe('a worker is chosen', () => {
  test('[ORCH-1031] by the configured algorithm', () => {
    assert.equal(places(three({ placement: 'least-loaded' }), 6), 'abcabc');
    assert.equal(places(three({ placement: 'most-vram-free' }), 6), 'bbccaa');
    const kit = three({ placement: 'round-robin' }, 4);
    assert.equal(places(kit, 7), 'abcabca');
    const again = three({ placement: 'round-robin' }, 4);
    assert.equal(places(again, 7), 'abcabca', 'it is deterministic');
    const loaded = three({ placement: 'round-robin' }, 4);
    places(loaded, 3, { labels: { pool: 'q' } });
    assert.equal(places(loaded, 4), 'abca', 'in turn, whoever has more to do');
  });

  test('[ORCH-1031] by the least load also where regions are compared first', () => {
    assert.equal(places(three({ placement: 'least-loaded', region: 'near' }), 5), 'ababc');
  });

  test('[ORCH-1031] by the memory that is free, not by the size of the device', () => {
    const kit = new PoolKit({ placement: 'most-vram-free' });
    kit.model('m', { slots: 2 });
    kit.pool('full', [80], { usedGb: 65 });
    kit.pool('roomy', [40]);
    for (const pool of ['full', 'roomy']) {
      kit.ask(`first ${pool}`, 'm', { labels: { pool } });
      kit.obey();
    }
    kit.ask('j', 'm');
    assert.match(kit.workerOf('j'), /^roomy\//);
  });

  test('[ORCH-1031] by the share of its slots that is in use: 2 of 8 is less load than 1 of 2', () => {
    const kit = new EngineKit();
    kit.backend('large', { slots: 8 });
    kit.backend('small', { slots: 2 });
    const went = Array.from({ length: 10 }, (_, n) => {
      kit.submit(`j${n}`);
      return kit.job(`j${n}`).job.backend?.[0];
    });
    // The fourth job goes to the large one, which runs two jobs already while the small one runs one.
    assert.deepEqual(went.slice(0, 5).sort(), ['l', 'l', 'l', 'l', 's']);
    assert.equal(went.filter((each) => each === 's').length, 2);
  });

  test('[ORCH-1032] only among those that have the model loaded', () => {
    const kit = three();
    kit.ask('x', 'other');
    assert.equal(kit.state('x'), 'queued');
    const [order] = dueWorkers(kit.engine.state);
    kit.carryOut('start', order!.id, order!.record);
    kit.set(order!.record.pool, order!.id, { status: 'starting' });
    kit.report(order!.record.pool);
    assert.equal(kit.state('x'), 'queued', 'the worker still loads the model');
    kit.set(order!.record.pool, order!.id, { status: 'ready' });
    kit.report(order!.record.pool);
    assert.equal(kit.state('x'), 'claimed');
    assert.ok(!['a', 'b', 'c'].includes(kit.workerOf('x').slice(-1)));
  });

  test('[ORCH-16.1] by measured speed, memory and balance together; the start is predicted by depth and measured times', () => {
    assert.equal(places(three({ placement: 'multi-objective' }), 1), 'b', 'the largest share of free memory');
    const kit = three({ placement: 'multi-objective' }, 8);
    const speeds: Record<string, number> = { a: 10, b: 200, c: 10 };
    for (let n = 0; n < 30; n++) {
      const id = kit.ask(`warm${n}`, 'm', { labels: { pool: n % 3 === 2 ? 'q' : 'p' } });
      const worker = kit.workerOf(id).slice(-1);
      kit.accept(id);
      const usage = usedTokens(1, 100, 100_000 / speeds[worker]!);
      kit.end(id, { ok: true, result: '1', usage });
    }
    const went = places(kit, 8);
    assert.ok(went.startsWith('b'), went);
    assert.ok((went.match(/b/g) ?? []).length >= 4, 'the fast one with the most memory gets most');
    assert.ok(new Set(went).size > 1, 'but not all');
    const predicted = (count: number): number => {
      let last = 0;
      for (let n = 0; n < count; n++) {
        last = kit.submit(`p${kit.log.length}`, { type: 'inference', model: 'm' }).predictedStartMs ?? 0;
      }
      return last;
    };
    const endAll = (ms: number): void => {
      for (const { uid } of [...kit.engine.state.open.values()]) kit.accept(uid);
      kit.now += ms;
      for (const { uid } of [...kit.engine.state.open.values()]) kit.end(uid, SUCCESS);
    };
    endAll(1000);
    predicted(24);
    const [soon, late] = [predicted(1), predicted(240)];
    assert.ok(soon > 0 && late > soon, `${soon} ms, behind 240 more ${late} ms`);
    endAll(60_000);
    assert.ok(predicted(1) > late, 'jobs take longer than they did, so those behind them wait longer');
  });

  test('[ORCH-16.1] by the speed that is measured now: a worker that has become slow loses its jobs', () => {
    const kit = new PoolKit({ placement: 'multi-objective' });
    kit.model('m', { slots: 8 });
    for (const id of ['p', 'q']) {
      kit.pool(id, [24]);
      kit.ask(`first ${id}`, 'm', { labels: { pool: id } });
      kit.obey();
    }
    const run = (id: string, tokensPerSec: number): void => {
      kit.accept(id);
      const usage = usedTokens(1, 100, 100_000 / tokensPerSec);
      kit.end(id, { ok: true, result: '1', usage });
    };
    const chosen = (id: string): string | undefined => kit.workerOf(kit.ask(id, 'm')).split('/')[0];
    run('first p', 100);
    run('first q', 50);
    assert.equal(chosen('to the fast one'), 'p');
    run('to the fast one', 100);
    for (let n = 0; n < 20; n++) run(kit.ask(`slow${n}`, 'm', { labels: { pool: 'p' } }), 5);
    assert.equal(chosen('to the other'), 'q');
  });

  test('[ORCH-16.3] in the near region first, and in a far one when the near one is full or does not answer', () => {
    const kit = three({ region: 'near' });
    assert.equal(places(kit, 6), 'ababcc');
    const silent = three({ region: 'near' });
    silent.step({ type: 'pool-lost', id: 'p' });
    assert.equal(places(silent, 2), 'cc');
    assert.equal(
      places(three({ region: 'near' }), 1, { region: 'far' }),
      'c',
      'the region of the job goes first',
    );
  });

  test('hard constraints hold before any preference', () => {
    const kit = three({ region: 'near' });
    assert.equal(places(kit, 3, { labels: { region: 'far' } }), 'cc-');
    assert.equal(places(kit, 1, { labels: { disk: 'slow' } }), '-');
  });

  test('by the context of the session, while the worker that holds it is free', () => {
    const kit = three();
    const first = kit.ask('s1', 'm', { session_id: 's' });
    const home = kit.workerOf(first);
    kit.accept(first);
    kit.end(first, SUCCESS);
    // Its home stays busier than the others: only the context can lead there.
    for (const id of ['x', 'y', 'z']) {
      kit.ask(id, 'm');
      kit.accept(id);
    }
    const elsewhere = ['x', 'y', 'z'].filter((id) => kit.workerOf(id) !== home);
    assert.equal(elsewhere.length, 2);
    for (const id of elsewhere) kit.end(id, SUCCESS);
    for (let n = 2; n < 4; n++) {
      kit.ask(`s${n}`, 'm', { session_id: 's' });
      assert.equal(kit.workerOf(`s${n}`), home);
      kit.accept(`s${n}`);
      kit.end(`s${n}`, SUCCESS);
    }
  });
});

test('[ORCH-1020] which job is next and where it runs is one decision, with its reason', () => {
  const kit = three({ region: 'near' }, 1);
  places(kit, 3);
  kit.ask('batch', 'm');
  kit.ask('person', 'm', { priority: 'interactive' });
  const far = [...kit.engine.state.jobs.values()].find(({ job }) => job.backend === 'q/c')!;
  kit.accept(far.uid);
  const { changes } = kit.end(far.uid, SUCCESS);
  const claims = changes.filter(({ cause }) => causeName(cause) === 'claim');
  assert.deepEqual(
    claims.map(({ kind, id, cause }) => [kind, id, causeText(cause)]),
    [
      ['job', 'person', 'claim:interactive-first'],
      ['attempt', 'person:1', 'claim:interactive-first'],
    ],
  );
  assert.equal(kit.workerOf('person'), 'q/c');
});
