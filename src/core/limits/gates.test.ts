import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SPEC } from '../../../test/fakes/engine-kit.ts';
import { specOf } from '../../model/job-spec.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import { type GatedAsk, Gates } from './gates.ts';
import { type Limit, LimitTable } from './limit.ts';

const HOUR = 3_600_000;

const ask = (agent: string, more: Partial<GatedAsk> = {}): GatedAsk => ({
  id: 'j',
  tenant: DEFAULT_TENANT,
  submittedBy: 'key',
  spec: specOf({}, { ...SPEC, agent }),
  route: undefined,
  ancestors: undefined,
  ...more,
});

function gatesOf(limits: readonly Limit[], max?: number): Gates {
  const gates = new Gates(max);
  gates.configure(limits, () => undefined);
  return gates;
}

describe('the gates of a job', () => {
  const kinds = ['session:*', 'root:*', 'agent:*', 'token:*', 'route:*', 'tenant:*', 'model:*', 'global'];
  const limits = kinds.map((scope) => ({ scope, running: 1 }));

  test('are those of all its scopes, the narrowest first', () => {
    const spec = specOf({ session_id: 's' }, { ...SPEC, agent: 'a' });
    const found = gatesOf(limits).of(ask('a', { spec, route: 'r', ancestors: ['top', 'middle'] }), 'm', 0);
    const names = ['session:default/s', 'root:default/top', 'agent:default/a', 'token:key', 'route:r'];
    assert.deepEqual(
      found.map(({ name }) => name),
      [...names, 'tenant:default', 'model:m', 'global'],
    );
    assert.deepEqual(found.filter(({ isBroad }) => isBroad).length, 2);
  });

  test('are those of its own tree without ancestors, and none of what it has not', () => {
    const found = gatesOf(limits).of(ask('a'), undefined, 0);
    const names = found.map(({ name }) => name);
    assert.deepEqual(names, ['root:default/j', 'agent:default/a', 'token:key', 'tenant:default', 'global']);
  });

  test('of another tenant are also those that the tenant has set for itself', () => {
    const gates = gatesOf([
      { scope: 'agent:acme/a', running: 5 },
      { scope: 'own-agent:acme/*', running: 1 },
    ]);
    const found = gates.of(ask('a', { tenant: 'acme' }), undefined, 0);
    assert.deepEqual(
      found.map(({ name }) => name),
      ['agent:acme/a', 'own-agent:acme/a'],
    );
  });

  test('are found anew for another caller, tenant, route or model of the same agent, and in a new window', () => {
    const scopes = ['agent:*', 'token:*', 'route:*', 'tenant:*', 'model:*'];
    const hourly = { costBudget: 9, window: 'hour' as const };
    const gates = gatesOf(scopes.map((scope) => ({ scope, ...hourly })));
    const namesOf = (more: Partial<GatedAsk>, model?: string): string[] =>
      gates.of(ask('a', more), model, 0).map(({ name }) => name);
    const first = namesOf({});
    assert.deepEqual(first, ['agent:default/a', 'token:key', 'tenant:default']);
    assert.deepEqual(namesOf({ submittedBy: 'other' }), ['agent:default/a', 'token:other', 'tenant:default']);
    assert.deepEqual(namesOf({ route: 'r' }), ['agent:default/a', 'token:key', 'route:r', 'tenant:default']);
    assert.deepEqual(namesOf({}, 'm'), ['agent:default/a', 'token:key', 'tenant:default', 'model:m']);
    assert.deepEqual(namesOf({ tenant: 'acme' }), ['agent:acme/a', 'token:acme/key', 'tenant:acme']);
    assert.deepEqual(namesOf({}), first);
    for (const gate of gates.of(ask('a'), undefined, 0)) gate.settled = 5;
    const later = gates.of(ask('a'), undefined, HOUR);
    assert.deepEqual(
      later.map(({ settled }) => settled),
      [0, 0, 0],
    );
  });

  test('of other limits are other ones', () => {
    const gates = gatesOf([{ scope: 'agent:*', running: 1 }]);
    const [before] = gates.of(ask('a'), undefined, 0);
    gates.configure([{ scope: 'agent:*', running: 2 }], () => undefined);
    const [after] = gates.of(ask('a'), undefined, 0);
    assert.deepEqual([before?.room, after?.room], [1, 2]);
  });

  test('are none without a limit of starts', () => {
    const gates = gatesOf([{ scope: 'agent:*', requestsPerSec: 1 }]);
    assert.ok(gates.isEmpty);
    assert.deepEqual(gates.of(ask('a'), 'm', 0), []);
  });
});

describe('a new agent name for every call', () => {
  test('leaves no gate behind once nothing of it runs, whatever it has cost', () => {
    const gates = gatesOf([{ scope: 'agent:*', running: 1 }]);
    for (let n = 0; n < 1000; n++) {
      const found = gates.of(ask(`a${n}`), undefined, 0);
      gates.begin(found, 7);
      gates.settle(found, 7, 5, 0);
    }
    assert.ok([...gates.values()].length < 10);
  });

  test('shares one gate with all names beyond the bound, so that together they have the limit of one', () => {
    const gates = gatesOf([{ scope: 'agent:*', running: 1, costBudget: 10, hard: true }], 3);
    const found = Array.from({ length: 6 }, (_, n) => {
      const each = gates.of(ask(`a${n}`), undefined, 0);
      gates.begin(each, 6);
      return each[0];
    });
    assert.deepEqual(
      found.map((gate) => gate?.name),
      ['agent:default/a0', 'agent:default/a1', 'agent:default/a2', ...Array(3).fill('agent:default/*')],
    );
    assert.ok(!found[5]?.fits(1));
  });

  test('leaves no gate and no record behind once the window is over', () => {
    const gates = gatesOf([{ scope: 'agent:*', costBudget: 10, window: 'hour', hard: true }]);
    for (let n = 0; n < 100; n++) {
      const found = gates.of(ask(`a${n}`), undefined, 0);
      gates.begin(found, 1);
      gates.settle(found, 1, 1, 0);
    }
    gates.dirty.clear();
    const stored = new Set<string>();
    for (let n = 0; n < 200; n++) {
      gates.of(ask('b'), undefined, HOUR);
      for (const gate of gates.dirty) if (!gate.kept()) stored.add(gate.name);
      gates.dirty.clear();
    }
    assert.equal(stored.size, 100);
    assert.ok([...gates.values()].length < 5);
  });

  test('does not lose a gate while an attempt is open whose executor is gone and that holds nothing', () => {
    const gates = gatesOf([{ scope: 'agent:*', costBudget: 10, hard: true }]);
    const found = gates.of(ask('a'), undefined, 0);
    gates.begin(found, 0);
    for (let n = 0; n < 10; n++) gates.of(ask('b'), undefined, 0);
    gates.settle(found, 0, 3, 0);
    assert.equal(gates.find('agent:default/a', 0)?.settled, 3);
  });
});

describe('windows', () => {
  const limit = { scope: 'global', costBudget: 10, window: 'hour', hard: true } as const;

  test('of gates that hold something up are told when they begin, whoever sees it first', () => {
    const gates = gatesOf([limit]);
    const gate = gates.find('global', 0)!;
    gates.shut(gate);
    assert.equal(gates.nextRoll(), HOUR);
    assert.deepEqual(gates.rollDue(HOUR - 1), []);
    gates.find('global', HOUR);
    assert.deepEqual(gates.rollDue(HOUR), [gate]);
    assert.deepEqual(gates.rollDue(HOUR), []);
    gates.shut(gate);
    assert.equal(gates.nextRoll(), 2 * HOUR);
    assert.deepEqual(gates.rollDue(5 * HOUR), [gate]);
  });

  test('of gates without one are not waited for', () => {
    const gates = gatesOf([{ scope: 'global', running: 0 }]);
    gates.shut(gates.find('global', 0)!);
    assert.equal(gates.nextRoll(), Number.POSITIVE_INFINITY);
  });
});

test('limits that nothing would hold are refused: submits of seats, routes, trees and pools, and the cost of a pool', () => {
  const refused = [
    { scope: 'seat:s', requestsPerSec: 1 },
    { scope: 'route:r', tokenBudget: 1 },
    { scope: 'root:default/j', concurrency: 1 },
    { scope: 'pool:p', costBudget: 1 },
  ];
  for (const limit of refused)
    assert.throws(() => new LimitTable([limit]), { code: 'INVALID_PARAMS' }, limit.scope);
  new LimitTable([
    { scope: 'pool:p', running: 1 },
    { scope: 'seat:s', running: 1, costBudget: 1 },
  ]);
});
