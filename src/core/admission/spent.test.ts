import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cost, MoneyKit } from '../../../test/fakes/money-kit.ts';
import type { LimitSpec } from '../../model/limit-records.ts';

const HOUR = 3_600_000;
const HARD = { hard: true } as const;

function kitOf(...limits: LimitSpec[]): MoneyKit {
  const kit = new MoneyKit(limits);
  kit.backend('b', { slots: 50, models: ['m'], paid: true });
  return kit;
}

describe('what a scope has used', () => {
  const budget = { scope: 'agent:*', costBudget: 100, window: 'hour', ...HARD } as const;
  const scope = 'agent:default/someone';

  test('is stored in the commit of the end that it was used for', () => {
    const kit = kitOf(budget, { ...budget, scope: 'global' });
    kit.ask('a', 9);
    const { changes } = kit.end('a', cost.success(7));
    const stored = changes.flatMap(({ kind, id, after }) => (kind === 'spent' ? [[id, after?.cost]] : []));
    assert.deepEqual(stored, [
      ['agent:default/someone', 7],
      ['global', 7],
    ]);
    assert.ok(changes.some(({ kind, after }) => kind === 'attempt' && after?.state === 'ended'));
  });

  test('goes on after a restart: running, reserved and settled', () => {
    const kit = kitOf(budget);
    kit.ask('a', 9);
    kit.end('a', cost.success(7));
    kit.ask('b', 20);
    kit.accept('b');
    kit.ask('c', 30);
    const next = kit.restarted();
    assert.deepEqual(next.used(scope), [2, 50, 7]);
    assert.equal(next.refusalOf('d', 101), 'ADMISSION_REJECT cost_budget');
    next.ask('e', 44);
    assert.equal(next.job('e').parked, 'quota');
    next.end('b', cost.success(20));
    next.end('c', cost.success(30));
    assert.deepEqual(next.used(scope), [0, 0, 57]);
  });

  test('of a former window does not count after a restart in a later one, whatever else was stored meanwhile', () => {
    const kit = kitOf({ ...budget, requestsPerSec: 5 });
    kit.now = HOUR;
    kit.ask('a', 90);
    kit.end('a', cost.success(90));
    kit.now = 2 * HOUR;
    // Stores the levels of the scope in the new window.
    kit.ask('later', 1, { not_before: 5 * HOUR });
    const next = kit.restarted();
    assert.deepEqual(next.used(scope), [0, 0, 0]);
  });

  test('is not forgotten where the clock was set back while the brain was down', () => {
    const kit = kitOf(budget);
    kit.now = 2 * HOUR + 5;
    kit.ask('a', 90);
    kit.end('a', cost.success(90));
    const next = kit.restarted(HOUR + 5);
    assert.deepEqual(next.used(scope), [0, 0, 90]);
  });

  test('of an unknown attempt stays reserved over a restart', () => {
    const kit = kitOf(budget);
    kit.ask('a', 90, { on_unknown: 'hold' });
    kit.accept('a');
    kit.lose('a');
    kit.found('a', { is: 'forgotten' });
    const next = kit.restarted();
    assert.deepEqual(next.used(scope), [1, 90, 0]);
    next.order({ type: 'resolve', uid: 'a', by: 'ops', how: { as: 'succeeded', result: '1' } });
    assert.deepEqual(next.used(scope), [0, 0, 90]);
  });

  test('goes on when its limit is raised or lowered, and its record goes with its window', () => {
    const kit = kitOf(budget);
    kit.ask('a', 90);
    kit.end('a', cost.success(90));
    kit.setLimits({ ...budget, costBudget: 95 });
    assert.deepEqual(kit.used(scope), [0, 0, 90]);
    kit.ask('b', 6);
    assert.equal(kit.job('b').parked, 'quota');
    kit.pass(HOUR);
    assert.deepEqual(kit.running, ['b']);
    assert.equal(kit.engine.state.tables.spent.get(scope), undefined);
  });
});

test('[NEWS-9] buckets go on where they were after a restart', () => {
  const limit = { scope: 'agent:*', requestsPerSec: 1, burstRequests: 3 };
  const kit = kitOf(limit);
  for (const id of ['a', 'b', 'c']) kit.ask(id, 1);
  const next = kit.restarted();
  assert.match(next.refusalOf('d', 1) ?? '', /RATE_LIMITED/);
  next.now += 1000;
  assert.equal(next.refusalOf('d', 1), undefined);
  assert.match(next.refusalOf('e', 1) ?? '', /RATE_LIMITED/);
});
