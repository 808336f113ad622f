import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { cost, MoneyKit } from '../../../test/fakes/money-kit.ts';

const HOUR = 3_600_000;
const HARD = { hard: true } as const;

/** Ends the running jobs, one at a time, until nothing runs. Returns the order in which jobs were claimed. */
function runAll(kit: MoneyKit, tokens = 0): string[] {
  for (let left = 10_000; left > 0 && kit.running.length > 0; left--)
    kit.end(kit.running[0] as string, cost.success(tokens));
  return kit.claims;
}

const ids = (letter: string, count: number): string[] => Array.from({ length: count }, (_, n) => letter + n);

describe('jobs that wait at a gate', () => {
  test('W1: leave it in order: interactive first, then by score, then as they were admitted', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1 }]);
    kit.backend('b', { slots: 9 });
    kit.ask('first', 1);
    kit.ask('batch1', 1);
    kit.ask('batch2', 1);
    kit.ask('high', 1, { score: 5 });
    kit.ask('person', 1, { priority: 'interactive' });
    assert.equal(kit.job('batch1').parked, 'quota');
    assert.deepEqual(runAll(kit), ['first', 'person', 'high', 'batch1', 'batch2']);
  });

  test('W2: are not overtaken by one that comes later, also while the first of them is in its lane', () => {
    const kit = new MoneyKit([{ scope: 'tenant:default', running: 1 }]);
    kit.backend('b', { slots: 9 });
    for (const id of ids('a', 3)) kit.ask(id, 1, { agent: 'a' });
    kit.step({ type: 'reachable', name: 'b', up: false });
    kit.end('a0', SUCCESS);
    // Let through to its lane, where no backend is free.
    assert.equal(kit.job('a1').parked, undefined);
    kit.ask('late', 1, { agent: 'another' });
    kit.step({ type: 'reachable', name: 'b', up: true });
    assert.deepEqual(runAll(kit), ['a0', 'a1', 'a2', 'late']);
  });

  test('of two gates start in order, and none waits for ever, whichever gate they came to first', () => {
    const kit = new MoneyKit([
      { scope: 'tenant:default', running: 1 },
      { scope: 'agent:*', running: 1 },
    ]);
    kit.backend('b', { slots: 9 });
    kit.ask('y', 1, { agent: 'y' });
    // These wait at the gate of the tenant: no job of their agent runs.
    for (const id of ['x1', 'x2', 'x3']) kit.ask(id, 1, { agent: 'x' });
    kit.end('y', SUCCESS);
    // These wait at the gate of the agent.
    for (const id of ['x4', 'x5']) kit.ask(id, 1, { agent: 'x' });
    assert.deepEqual(runAll(kit), ['y', 'x1', 'x2', 'x3', 'x4', 'x5']);
  });

  test('hold up only those whose gates are full: others of the same agent go on', () => {
    const kit = new MoneyKit([
      { scope: 'agent:default/x', running: 1 },
      { scope: 'token:paused', running: 0 },
    ]);
    kit.backend('b', { slots: 9 });
    kit.ask('x1', 1, { agent: 'x' });
    kit.ask('stopped', 1, { agent: 'x', submittedBy: 'paused' });
    kit.ask('x2', 1, { agent: 'x' });
    assert.deepEqual(runAll(kit), ['x1', 'x2']);
    assert.equal(kit.job('stopped').parked, 'quota');
  });

  test('whose lane has no free backend are passed by those of other lanes, and keep no room from them', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1 }]);
    kit.backend('b', { slots: 9, types: ['t'] });
    kit.backend('gone', { types: ['u'] });
    kit.step({ type: 'reachable', name: 'gone', up: false });
    kit.ask('t1', 1);
    kit.ask('u1', 1, { type: 'u' });
    kit.ask('t2', 1);
    kit.end('t1', SUCCESS);
    assert.deepEqual(kit.running, ['t2']);
    kit.end('t2', SUCCESS);
    kit.ask('t3', 1);
    assert.deepEqual(kit.running, ['t3']);
    kit.step({ type: 'reachable', name: 'gone', up: true });
    assert.deepEqual(kit.running, ['t3']);
    kit.end('t3', SUCCESS);
    assert.deepEqual(kit.running, ['u1']);
  });

  test('that are cancelled leave it, and the next takes their place', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1, costBudget: 10, window: 'hour', ...HARD }]);
    kit.backend('b', { slots: 9 });
    kit.ask('a', 6);
    kit.ask('large', 6);
    kit.ask('small', 3);
    kit.end('a', cost.success(6));
    assert.deepEqual(kit.running, []);
    kit.cancel('large');
    assert.deepEqual(kit.running, ['small']);
  });
});

describe('jobs that wait for a budget', () => {
  const budget = { scope: 'agent:*', costBudget: 10, window: 'hour', ...HARD } as const;

  test('are not overtaken by a smaller one that would fit', () => {
    const kit = new MoneyKit([budget]);
    kit.backend('b', { slots: 9 });
    kit.ask('a', 6);
    kit.ask('large', 8);
    kit.ask('small', 2);
    assert.deepEqual(kit.running, ['a']);
    kit.end('a', cost.success(2));
    assert.deepEqual(kit.running, ['large']);
    kit.end('large', cost.success(0));
    assert.deepEqual(kit.running, ['small']);
  });

  test('are overtaken by one that their order puts first, as soon as it comes', () => {
    const kit = new MoneyKit([budget]);
    kit.backend('b', { slots: 9 });
    kit.ask('a', 6);
    kit.end('a', cost.success(6));
    kit.ask('large', 8);
    kit.ask('person', 4, { priority: 'interactive' });
    assert.deepEqual(kit.running, ['person']);
  });

  test('start with the window that brings room, also if a submit is the first to see it', () => {
    const kit = new MoneyKit([budget]);
    kit.backend('b', { slots: 9 });
    kit.ask('a', 10);
    kit.end('a', cost.success(10));
    kit.ask('b', 10);
    assert.equal(kit.job('b').parked, 'quota');
    kit.now = HOUR;
    kit.ask('c', 1);
    assert.deepEqual(kit.running, ['b']);
  });

  test('start at a budget of all jobs when their lane gets another backend, job or price', () => {
    const all = { scope: 'global', costBudget: 100, ...HARD } as const;
    const seat = { scope: 'seat:dear', costBudget: 10, window: 'hour', ...HARD } as const;
    const kit = new MoneyKit([all, seat]);
    kit.backend('dear', { slots: 9 });
    kit.ask('a', 10);
    kit.end('a', cost.success(10));
    kit.ask('b', 10);
    assert.deepEqual(kit.running, []);
    kit.backend('other', { slots: 9 });
    assert.deepEqual(kit.running, ['b']);
    const one = new MoneyKit([{ ...all, costBudget: 10, window: 'hour' }]);
    one.backend('b', { slots: 9 });
    one.ask('a', 6);
    one.end('a', cost.success(6));
    one.ask('large', 8);
    one.ask('small', 4);
    assert.deepEqual(one.running, []);
    one.cancel('large');
    assert.deepEqual(one.running, ['small']);
    one.ask('next', 8);
    one.step({ type: 'prices', prices: [{ model: '*', output: 0 }], by: 'ops' });
    assert.deepEqual(one.running, ['next', 'small']);
  });

  test('of all jobs are not starved by cheaper ones of another lane', () => {
    const kit = new MoneyKit([{ scope: 'global', costBudget: 10, window: 'hour', ...HARD }]);
    kit.backend('b', { slots: 9, types: ['t'] });
    kit.backend('c', { slots: 9, types: ['u'] });
    kit.ask('a', 5, { type: 'u' });
    kit.ask('large', 9, { type: 't' });
    kit.ask('cheap', 1, { type: 'u' });
    assert.deepEqual(kit.running, ['a']);
    kit.end('a', cost.success(1));
    assert.deepEqual(kit.running, ['large']);
    kit.end('large', cost.success(1));
    assert.deepEqual(kit.running, ['cheap']);
  });
});

describe('limits that change while jobs wait', () => {
  test('count a job between its gate and its claim once', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1 }]);
    kit.backend('b', { slots: 9 });
    for (const id of ids('a', 5)) kit.ask(id, 1);
    kit.step({ type: 'reachable', name: 'b', up: false });
    kit.end('a0', SUCCESS);
    kit.setLimits({ scope: 'agent:*', running: 1 }, { scope: 'global', running: 5 });
    kit.step({ type: 'reachable', name: 'b', up: true });
    assert.deepEqual(kit.running, ['a1']);
    kit.end('a1', SUCCESS);
    assert.deepEqual(kit.running, ['a2']);
  });

  test('keep the order of those that waited, also against jobs that come while many are looked at', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1 }]);
    kit.backend('b', { slots: 9 });
    const many = ids('a', 5000);
    for (const id of many) kit.ask(id, 1);
    kit.setLimits({ scope: 'token:*', running: 1 }, { scope: 'agent:*', running: 1 });
    kit.ask('late', 1);
    kit.pass(0);
    assert.deepEqual(runAll(kit), [...many, 'late']);
  });

  test('let all go that nothing holds up any more', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1, costBudget: 1, window: 'hour', ...HARD }]);
    kit.backend('b', { slots: 9 });
    for (const id of ids('a', 4)) kit.ask(id, 1);
    kit.setLimits();
    assert.equal(kit.running.length, 4);
  });

  test('a job that a former limit let wait can be cancelled meanwhile', () => {
    const kit = new MoneyKit([{ scope: 'agent:*', running: 1 }]);
    kit.backend('b', { slots: 9 });
    for (const id of ids('a', 2500)) kit.ask(id, 1);
    kit.setLimits({ scope: 'agent:*', running: 2 });
    kit.cancel('a2400');
    kit.pass(0);
    assert.equal(runAll(kit).length, 2499);
  });
});
