import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MoneyWalk, moneyCommands } from '../../../test/fakes/money-walk.ts';

test('whatever happens, budgets and running limits hold, no job is forgotten, and a restart counts the same', () => {
  let starts = 0;
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 12 - 1 }), moneyCommands(120), (bits, commands) => {
      const walk = new MoneyWalk(bits);
      for (const command of commands) walk.do(command);
      starts += walk.model.starts;
      walk.drain();
    }),
    { numRuns: Number(process.env['WALKS'] ?? 150) },
  );
  assert.ok(starts > 1000, `only ${starts} attempts were started`);
});
