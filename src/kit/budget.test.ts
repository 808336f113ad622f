import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget } from './budget.ts';

test('work runs in order within the budget; work larger than the budget runs alone; failed work returns its share', async () => {
  const budget = new Budget(10);
  const amounts = [6, 4, 5, 25, 3, 7, 1];
  let used = 0;
  const begun: number[] = [];
  const all = amounts.map((amount) =>
    budget.spend(amount, async () => {
      begun.push(amount);
      used += amount;
      assert.ok(used <= 10 || used === amount, `${used} at once`);
      await new Promise((resolve) => setImmediate(resolve));
      used -= amount;
      if (amount === 5) throw new Error('no');
      return amount;
    }),
  );
  const ended = await Promise.allSettled(all);
  assert.deepEqual(begun, amounts);
  assert.deepEqual(
    ended.map((each) => each.status === 'fulfilled' && each.value),
    [6, 4, false, 25, 3, 7, 1],
  );
});
