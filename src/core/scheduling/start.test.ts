import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Fields, SUCCESS, submission, TURNED_AWAY } from '../../../test/fakes/engine-kit.ts';
import { cost, MoneyKit } from '../../../test/fakes/money-kit.ts';
import type { LimitSpec } from '../../model/limit-records.ts';
import type { Outcome } from '../ports/backend.ts';

const HOUR = 3_600_000;
const HARD = { hard: true } as const;

function kitOf(...limits: LimitSpec[]): MoneyKit {
  const kit = new MoneyKit(limits);
  kit.backend('b', { slots: 50, models: ['m', 'o'], paid: true });
  return kit;
}

const errorOf = (kit: MoneyKit, id: string): string | undefined => kit.job(id).job.error?.reason;

describe('a limit of running jobs', () => {
  /** Of each scope: a job that it limits, and one that it does not. */
  const SCOPES: Record<string, readonly [Fields, Fields]> = {
    'tenant:acme': [{ tenant: 'acme' }, {}],
    'agent:default/x': [{ agent: 'x' }, { agent: 'y' }],
    'agent:*': [{ agent: 'x' }, { agent: 'y' }],
    'token:key': [{ submittedBy: 'key' }, { submittedBy: 'other' }],
    'session:default/s': [
      { session_id: 's', parallel: true },
      { session_id: 'r', parallel: true },
    ],
    'model:m': [{ model: 'm' }, { model: 'o' }],
    'route:fast': [{ route: 'fast' }, { route: 'slow' }],
  };
  const uid = (fields: Fields, id: string): string => (fields.tenant ? `${fields.tenant}~${id}` : id);

  for (const [scope, [limited, free]] of Object.entries(SCOPES)) {
    test(`of ${scope} holds, and not for others; what is over it waits and starts in order`, () => {
      const kit = kitOf({ scope, running: 2 });
      for (const id of ['a', 'b', 'c', 'd']) kit.ask(id, 1, limited);
      kit.ask('free', 1, free);
      assert.deepEqual(kit.running, ['a', 'b', 'free']);
      kit.end(uid(limited, 'b'), SUCCESS);
      assert.deepEqual(kit.running, ['a', 'c', 'free']);
      kit.end(uid(limited, 'a'), cost.failure(1));
      assert.deepEqual(kit.running, ['c', 'd', 'free']);
    });

    // The pattern would pause all agents.
    if (scope.endsWith('*')) continue;
    test(`of 0 is a pause of ${scope}, until it is raised`, () => {
      const kit = kitOf({ scope, running: 0 });
      kit.ask('a', 1, limited);
      kit.ask('free', 1, free);
      kit.pass(HOUR);
      assert.deepEqual(kit.running, ['free']);
      kit.setLimits({ scope, running: 1 });
      assert.deepEqual(kit.running, ['a', 'free']);
    });
  }

  test('of all jobs, of a seat, of a pool and of a tree of jobs hold too', () => {
    const all = kitOf({ scope: 'global', running: 2 });
    for (const id of ['a', 'b', 'c']) all.ask(id, 1, { agent: id });
    assert.deepEqual(all.running, ['a', 'b']);
    const seat = kitOf({ scope: 'seat:b', running: 1 });
    for (const id of ['a', 'b']) seat.ask(id, 1);
    assert.deepEqual(seat.running, ['a']);
    const pool = new MoneyKit([{ scope: 'pool:p', running: 2 }]);
    for (const name of ['w1', 'w2', 'w3'])
      pool.backend(name, { home: { pool: 'p', device: 0 }, models: ['m'] });
    for (const id of ['a', 'b', 'c']) pool.ask(id, 1, { model: 'm' });
    assert.deepEqual(pool.running, ['a', 'b']);
    pool.end('a', SUCCESS);
    assert.deepEqual(pool.running, ['b', 'c']);
    const tree = kitOf({ scope: 'root:default/top', running: 2 });
    tree.ask('top', 1);
    tree.ask('child', 1, { parent_id: 'top' });
    tree.ask('grandchild', 1, { parent_id: 'child' });
    tree.ask('stranger', 1);
    assert.deepEqual(tree.running, ['child', 'stranger', 'top']);
  });

  test('counts an attempt whose outcome is unknown until it is resolved', () => {
    const kit = kitOf({ scope: 'agent:*', running: 1, costBudget: 10, ...HARD });
    kit.ask('a', 5, { on_unknown: 'hold' });
    kit.ask('b', 5);
    kit.accept('a');
    kit.lose('a');
    kit.found('a', { is: 'forgotten' });
    assert.deepEqual(kit.used('agent:default/someone'), [1, 5, 0]);
    assert.deepEqual(kit.running, ['a']);
    kit.order({ type: 'resolve', uid: 'a', by: 'ops', how: { as: 'failed' } });
    // Nobody knows what it has cost: all that it held counts.
    assert.deepEqual(kit.used('agent:default/someone'), [1, 5, 5]);
    assert.deepEqual(kit.running, ['b']);
  });

  test('lowered below what runs stops nothing, and lets nobody start until it holds', () => {
    const kit = kitOf({ scope: 'tenant:default', running: 3 });
    for (const id of ['a', 'b', 'c', 'd']) kit.ask(id, 1);
    kit.setLimits({ scope: 'tenant:default', running: 1 });
    kit.end('a', SUCCESS);
    kit.end('b', SUCCESS);
    assert.deepEqual(kit.running, ['c']);
    kit.end('c', SUCCESS);
    assert.deepEqual(kit.running, ['d']);
  });
});

describe('a hard budget', () => {
  const budget = { scope: 'agent:*', costBudget: 10, ...HARD } as const;
  const scope = 'agent:default/someone';

  test('holds what an attempt may cost, and settles what it has cost', () => {
    const kit = kitOf(budget);
    kit.ask('a', 6);
    assert.deepEqual(kit.used(scope), [1, 6, 0]);
    kit.ask('b', 4);
    kit.ask('c', 5);
    assert.deepEqual(kit.running, ['a', 'b']);
    kit.end('a', cost.success(1));
    assert.deepEqual(kit.used(scope), [2, 9, 1]);
    assert.deepEqual(kit.running, ['b', 'c']);
  });

  test('counts tries that failed or were cancelled, and not those that were turned away', () => {
    const kit = kitOf(budget);
    kit.ask('a', 4, { max_tries: 1 });
    kit.end('a', cost.failure(3));
    assert.deepEqual(kit.used(scope), [0, 0, 3]);
    kit.ask('b', 4);
    kit.cancel('b');
    kit.killed('b', { is: 'ended', outcome: cost.cancelled(2) });
    assert.deepEqual(kit.used(scope), [0, 0, 5]);
    kit.ask('c', 4);
    kit.end('c', TURNED_AWAY);
    assert.deepEqual(kit.used(scope), [0, 0, 5]);
  });

  test('reserves again for a retry, and ends a job whose retry it cannot hold any more', () => {
    const kit = kitOf(budget);
    kit.ask('a', 4);
    kit.end('a', cost.failure(4, true));
    kit.pass(60_000);
    assert.deepEqual(kit.used(scope), [1, 4, 4]);
    kit.end('a', cost.failure(4, true));
    kit.pass(60_000);
    assert.deepEqual(kit.used(scope), [0, 0, 8]);
    assert.equal(kit.state('a'), 'dead');
    assert.equal(errorOf(kit, 'a'), 'cost_budget');
  });

  test('holds for a redrive too', () => {
    const kit = kitOf(budget);
    kit.ask('a', 6, { max_tries: 1 });
    kit.end('a', cost.failure(6));
    kit.redrive('a');
    assert.deepEqual(kit.used(scope), [0, 0, 6]);
    assert.equal(kit.state('a'), 'dead');
    kit.setLimits({ ...budget, costBudget: 12 });
    kit.redrive('a');
    assert.deepEqual(kit.used(scope), [1, 6, 6]);
  });

  test('ends a waiting job as soon as it is certain that it never fits', () => {
    const kit = kitOf(budget);
    kit.ask('a', 6);
    kit.ask('b', 6);
    assert.equal(kit.job('b').parked, 'quota');
    kit.end('a', cost.success(5));
    assert.equal(kit.state('b'), 'dead');
    assert.equal(errorOf(kit, 'b'), 'cost_budget');
  });

  test('lowered below what is held stops nothing, and nobody starts until all of it fits', () => {
    const kit = kitOf({ ...budget, window: 'hour' });
    kit.ask('a', 9);
    kit.setLimits({ ...budget, window: 'hour', costBudget: 5 });
    assert.deepEqual(kit.used(scope), [1, 9, 0]);
    kit.ask('b', 2);
    assert.deepEqual(kit.running, ['a']);
    kit.end('a', cost.success(4));
    assert.deepEqual(kit.running, []);
    kit.pass(HOUR);
    assert.deepEqual(kit.running, ['b']);
  });

  test('added while jobs run counts what they hold', () => {
    const kit = kitOf();
    kit.ask('a', 8);
    kit.setLimits(budget);
    const [running, reserved] = kit.used(scope);
    assert.deepEqual([running, reserved > 0], [1, true]);
  });

  test('is exceeded only by a provider that bills more than its bound, whose seat is paused then', () => {
    const kit = kitOf(budget);
    kit.backend('other', { slots: 50, paid: true });
    kit.ask('a', 8);
    const seat = kit.job('a').open?.backend as string;
    kit.end('a', cost.success(12));
    assert.deepEqual(kit.used(scope), [0, 0, 12]);
    const paused = kit.engine.state.tables.spent.get(`seat:${seat}`)?.paused;
    assert.deepEqual([paused?.token, paused?.excess], ['a:1', 4]);
    kit.setLimits({ ...budget, costBudget: 100 });
    for (const id of ['b', 'c']) kit.ask(id, 1);
    for (const id of ['b', 'c']) assert.notEqual(kit.job(id).open?.backend, seat);
  });

  test('of a tree of jobs holds for all branches together', () => {
    const kit = kitOf({ scope: 'root:*', costBudget: 10, window: 'hour', ...HARD });
    kit.ask('top', 2);
    for (const id of ['left', 'right']) kit.ask(id, 3, { parent_id: 'top', agent: id });
    kit.ask('leaf', 3, { parent_id: 'left' });
    kit.ask('other', 10);
    assert.deepEqual(kit.used('root:default/top'), [3, 8, 0]);
    assert.equal(kit.job('leaf').parked, 'quota');
    kit.end('right', cost.success(0));
    assert.deepEqual(kit.running, ['leaf', 'left', 'other', 'top']);
  });

  test('of a run holds for the calls that it waits for, step after step', () => {
    const kit = kitOf({ scope: 'root:*', costBudget: 10, window: 'total', ...HARD });
    const step = (...ids: string[]): Outcome => ({
      ok: 'waits',
      state: 'null',
      children: ids.map((id) => submission(id, { hash: id, maxOutput: 4 })),
      needs: 'all',
    });
    kit.ask('run', 0);
    kit.end('run', step('run.1'));
    kit.end('run.1', cost.success(4));
    kit.end('run', step('run.2', 'run.3'));
    assert.deepEqual(kit.used('root:default/run'), [1, 4, 4], 'the second one would exceed it');
    assert.equal(kit.job('run.3').parked, 'quota');
    kit.end('run.2', cost.success(1));
    assert.deepEqual(kit.running, ['run.3']);
  });

  test('follows the clock over its windows, and grants nothing twice when the clock is set back', () => {
    const kit = kitOf({ ...budget, window: 'hour' });
    const spend = (id: string): void => {
      kit.ask(id, 10);
      kit.end(id, cost.success(10));
    };
    kit.now = 5 * HOUR;
    spend('a');
    kit.now = 6 * HOUR;
    spend('b');
    for (const hour of [5, 4, 6]) {
      kit.now = hour * HOUR + 1;
      kit.step({ type: 'tick' });
      kit.ask(`c${hour}`, 10);
      assert.deepEqual(kit.running, []);
    }
    kit.now = 7 * HOUR;
    kit.step({ type: 'tick' });
    assert.equal(kit.running.length, 1);
  });
});

test('a new agent name for every call does not get around the limits of tenant, token and all jobs', () => {
  for (const scope of ['tenant:default', 'token:someone', 'global']) {
    const kit = kitOf(
      { scope, running: 5, costBudget: 30, window: 'hour', ...HARD },
      { scope: 'agent:*', costBudget: 10, ...HARD },
    );
    for (let n = 0; n < 40; n++) kit.ask(`j${n}`, 10, { agent: `made-up-${n}` });
    assert.deepEqual(kit.used(scope), [3, 30, 0]);
    while (kit.running.length > 0) kit.end(kit.running[0] as string, cost.success(10));
    assert.deepEqual(kit.used(scope), [0, 0, 30]);
  }
});
