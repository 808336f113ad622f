import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type MoneyCommand, MoneyWalk, moneyCommands } from '../../../test/fakes/money-walk.ts';

/**
 * The batch job that was due in a lane stood behind the interactive job of the same lane, which the lane did not pick: all
 * jobs on the budget waited for ever.
 */
const BATCH_IS_DUE: MoneyCommand[] = (
  [
    ['submit', 515, 105],
    ['submit', 0, 0],
    ['end', 813, 391],
    ['submit', 0, 0],
    ['submit', 17, 0],
    ['submit', 617, 0],
    ['submit', 392, 173],
    ['limits', 689, 425],
    ['submit', 446, 0],
    ['submit', 221, 127],
    ['submit', 402, 30],
    ['end', 0, 684],
    ['submit', 77, 228],
    ['end', 0, 0],
    ['pass', 0, 160],
    ['end', 415, 347],
    ['end', 769, 124],
    ['submit', 197, 387],
    ['submit', 851, 76],
    ['submit', 0, 0],
  ] as const
).map(([kind, pick, variant]) => ({ kind, pick, variant }));

test('whatever happens, budgets and running limits hold, no job is forgotten, and a restart counts the same', () => {
  let starts = 0;
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 12 - 1 }), moneyCommands(120), (bits, commands) => {
      const walk = new MoneyWalk(bits);
      for (const command of commands) walk.do(command);
      starts += walk.model.starts;
      walk.drain();
    }),
    { numRuns: Number(process.env['WALKS'] ?? 150), examples: [[0, BATCH_IS_DUE]] },
  );
  assert.ok(starts > 1000, `only ${starts} attempts were started`);
});
