import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentTokens } from './recent-tokens.ts';

test('the last `count` tokens are kept, and never more than twice as many', () => {
  const tokens = new RecentTokens(10);
  for (let n = 0; n < 1000; n++) {
    tokens.add(`t${n}`);
    for (let back = 0; back < 10; back++) assert.ok(n < back || tokens.has(`t${n - back}`));
    assert.ok(!tokens.has(`t${n - 20}`));
  }
});
