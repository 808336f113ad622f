import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Wait, type WaitRequest } from './function-wait.ts';

const cycle: Record<string, unknown> = {};
cycle['self'] = cycle;

const outcomeOf = (request: unknown) => new Wait(request as WaitRequest).outcome();

const refused = (request: unknown, message: RegExp): void =>
  assert.throws(() => outcomeOf(request), { code: 'INVALID_PARAMS', message }, String(message));

describe('a function that asks to wait', () => {
  test('keeps a JSON value, or none', () => {
    assert.equal(outcomeOf({ state: { a: [1, null] } }).stateText, '{"a":[1,null]}');
    assert.equal(outcomeOf({ state: null }).stateText, 'null');
    assert.equal(outcomeOf({ forMs: 5 }).stateText, 'null');
    const { stateText, lists } = outcomeOf({ state: { l: [1], n: 2 }, growing: ['l'] });
    assert.deepEqual([stateText, lists], ['{"n":2}', { l: [1] }]);
  });

  test('with a state that is no JSON fails with an error that says so', () => {
    refused({ state: undefined }, /cannot be written as JSON: it is undefined/);
    refused({ state: () => 1 }, /it is function/);
    refused({ state: { a: 1n } }, /cannot be written as JSON: .*BigInt/);
    refused({ state: cycle }, /cannot be written as JSON: .*circular/);
    refused({ state: { l: [], a: 1n }, growing: ['l'] }, /cannot be written as JSON/);
    refused({ state: { l: [], toJSON: () => 'x' }, growing: ['l'] }, /must be an object/);
    refused({ state: { l: [], toJSON: () => undefined }, growing: ['l'] }, /cannot be written as JSON/);
    refused({ state: { 'a"': [] }, growing: ['a"'] }, /"growing" must be a list of names/);
    refused({ state: { l: 1 }, growing: ['l'] }, /is said to be a list/);
    refused({ growing: ['l'] }, /is said to be a list/);
  });

  test('for something that cannot be waited for fails with an error that says so', () => {
    for (const request of [null, 7, undefined]) refused(request, /must be an object/);
    for (const jobs of [null, {}, 'abc']) refused({ state: 1, jobs }, /"jobs" must be a list/);
    refused({ state: 1, needs: 'some' }, /"needs"/);
    for (const forMs of [Number.NaN, '5', null]) refused({ state: 1, forMs }, /"forMs"/);
    for (const budget of [{ tokens: Number.NaN }, { cost: -1 }, { tokens: '5' }, 'x'])
      refused({ state: 1, budget }, /"budget"/);
  });
});
