/** Conversations stay on the seats that have heard them, and nobody waits too long for it. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { seededRandom } from '../crash/steady-env.ts';
import { type ConversationReport, Conversations } from './conversations.ts';

const PRICE = 10;
const SEEDS = [1, 2, 3];

function play(t: TestContext, sticky: { enabled: boolean; price: number }, seed: number): ConversationReport {
  const shape = { seats: 4, conversations: 200, turns: 5, load: 0.6 };
  const report = new Conversations({ ...shape, sticky, random: seededRandom(seed) }).play();
  const share = ((100 * report.hits) / report.later).toFixed(1);
  const { enabled, price } = sticky;
  t.diagnostic(
    `${enabled ? `price ${price}` : 'off'}, seed ${seed}: ${report.hits} of ${report.later} hits (${share} %), the longest wait beside a free seat ${report.longestIdleWait.toFixed(1)} service times`,
  );
  assert.equal(report.later, 200 * 4, 'every turn has run');
  return report;
}

test('[FANO-7] a turn goes to the seat with its conversation, or after the price to another one', (t) => {
  for (const seed of SEEDS) {
    const { hits, later, longestIdleWait } = play(t, { enabled: true, price: PRICE }, seed);
    assert.ok(hits >= 0.95 * later, `${hits} of ${later} turns`);
    assert.ok(longestIdleWait > 1, 'some have waited for their seat');
    // The mean is measured anew at every end, and may have been larger when the wait began.
    assert.ok(longestIdleWait <= 1.1 * PRICE, `${longestIdleWait} mean service times beside a free seat`);
  }
});

test('[FANO-7] without a price, and without the preference, conversations move', (t) => {
  for (const seed of SEEDS) {
    const free = play(t, { enabled: true, price: 0 }, seed);
    assert.ok(free.hits < 0.95 * free.later && free.longestIdleWait === 0);
    const off = play(t, { enabled: false, price: PRICE }, seed);
    assert.ok(off.hits < free.hits && off.longestIdleWait === 0);
  }
});
