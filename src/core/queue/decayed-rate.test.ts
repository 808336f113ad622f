import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DecayedRate } from './decayed-rate.ts';

test('the rate of a steady stream is right from the first minutes on', () => {
  const rate = new DecayedRate(60_000);
  assert.equal(rate.perMs(0), 0);
  for (let now = 0; now <= 600_000; now += 500) {
    rate.add(now);
    if (now >= 30_000) assert.ok(Math.abs(rate.perMs(now) * 500 - 1) < 0.03, `${now}: ${rate.perMs(now)}`);
  }
});

test('the rate decays without events, and a single event gives a low rate', () => {
  const rate = new DecayedRate(60_000);
  rate.add(0);
  assert.ok(rate.perMs(0) < 1 / 10_000);
  for (let now = 0; now < 600_000; now += 500) rate.add(now);
  const before = rate.perMs(600_000);
  assert.ok(Math.abs(rate.perMs(660_000) / before - Math.exp(-1)) < 0.01);
});

test('events out of order are counted and do not turn the clock back', () => {
  const rate = new DecayedRate(60_000);
  rate.add(100_000);
  rate.add(40_000);
  assert.equal(rate.sum(100_000), 2);
});
