import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, type Fields, START, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import type { LimitSpec } from '../../model/limit-records.ts';
import { explain } from './explain.ts';
import { jobPosition, predictStartMs } from './predict.ts';

const HOUR_MS = 3_600_000;

function limited(limits: readonly LimitSpec[], slots = 4): EngineKit {
  const kit = new EngineKit({ prices: [{ model: '*', request: 6 }] });
  kit.backend('b', { slots });
  kit.step({ type: 'limits', limits, by: 'test' });
  return kit;
}

function startedIn(kit: EngineKit, id: string, fields: Fields = {}): void {
  kit.submit(id, fields);
  kit.accept(id);
}

const reason = (kit: EngineKit, id: string) => explain(kit.engine.state, kit.job(id));

const guess = (kit: EngineKit, id: string): (number | undefined)[] => {
  const position = jobPosition(kit.job(id));
  return [position, predictStartMs(kit.job(id), position, kit.now)];
};

test('a job at the limit of running jobs names its scope and the limit, and no time that nobody knows', () => {
  const kit = limited([{ scope: 'agent:*', running: 1 }]);
  startedIn(kit, 'a');
  kit.submit('b');
  assert.deepEqual(reason(kit, 'b'), {
    code: 'quota',
    text: '"agent:default/someone" runs as many jobs as it may: 1',
  });
  assert.deepEqual(guess(kit, 'b'), [undefined, undefined]);
  kit.end('a', SUCCESS);
  assert.equal(kit.state('b'), 'claimed');
});

test('a scope with room for no job at all is said to be paused', () => {
  const kit = limited([{ scope: 'agent:default/someone', running: 0 }]);
  kit.submit('a');
  assert.equal(reason(kit, 'a')?.text, '"agent:default/someone" is paused: its limit of running jobs is 0');
});

test('a job that its budget cannot hold says what is spent and reserved, and when the budget starts anew', () => {
  const kit = limited([{ scope: 'agent:*', costBudget: 10, hard: true, window: 'hour' }]);
  startedIn(kit, 'a');
  kit.submit('b');
  const at = new Date(Math.ceil(START / HOUR_MS) * HOUR_MS).toISOString();
  const text = (spent: number, reserved: number): string =>
    `the budget of "agent:default/someone" has no room for it: of 10 millionths ${spent} are spent and ${reserved} reserved; it starts anew at ${at}`;
  assert.deepEqual(reason(kit, 'b'), { code: 'quota', text: text(0, 6) });
  kit.end('a', SUCCESS);
  assert.equal(reason(kit, 'b')?.text, text(6, 0));
  kit.pass(HOUR_MS);
  assert.equal(kit.state('b'), 'claimed');
});

test('every job of a lane that a gate holds up names that gate, and gets no predicted start', () => {
  const kit = limited([{ scope: 'global', running: 1 }]);
  startedIn(kit, 'a');
  kit.submit('b');
  kit.submit('c');
  for (const id of ['b', 'c'])
    assert.deepEqual(reason(kit, id), { code: 'quota', text: '"global" runs as many jobs as it may: 1' });
  assert.deepEqual(
    [guess(kit, 'b'), guess(kit, 'c')],
    [
      [0, undefined],
      [1, undefined],
    ],
  );
});

test('a tenant is not told what others have spent', () => {
  const kit = limited([
    { scope: 'global', costBudget: 10, hard: true },
    { scope: 'tenant:lab', costBudget: 100, hard: true },
  ]);
  startedIn(kit, 'a');
  kit.submit('b', { tenant: 'lab' });
  assert.equal(reason(kit, 'lab~b')?.text, 'the budget of "global" has no room for it');
  kit.step({ type: 'limits', limits: [{ scope: 'tenant:lab', running: 0 }], by: 'test' });
  assert.match(reason(kit, 'lab~b')?.text ?? '', /"tenant:lab" is paused/);
  const limits = [{ scope: 'global', costBudget: 5, hard: true }];
  kit.step({ type: 'limits', limits, by: 'test' });
  const refused = kit.trySubmit('c', { tenant: 'lab' });
  assert.match(
    (refused as Error).message,
    /^it may cost 6 millionths; the budget of "global" can never hold that$/,
  );
  assert.match((kit.trySubmit('d') as Error).message, /of the budget of "global", 5, 0 are spent$/);
});

test('a seat at its limit of running jobs is named with the limit', () => {
  const kit = limited([{ scope: 'seat:b', running: 1 }]);
  startedIn(kit, 'a');
  kit.submit('b');
  assert.deepEqual(reason(kit, 'b'), {
    code: 'backend_busy',
    text: 'next; the backend that can run it is busy: "b" may run 1 at once (limit of "seat:b")',
  });
});
