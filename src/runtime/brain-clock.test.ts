import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../kit/env/env.ts';
import { BrainClock } from './brain-clock.ts';

class ManualClock implements Clock {
  wall = Date.UTC(2026, 0, 1);
  monotonicMs = 0;

  now(): number {
    return this.wall;
  }

  monotonic(): number {
    return this.monotonicMs;
  }

  pass(ms: number): void {
    this.wall += ms;
    this.monotonicMs += ms;
  }
}

test('after a step of the wall clock nothing expires for a minute, even if the clock was not read since', () => {
  const clock = new ManualClock();
  const brain = new BrainClock(clock);
  clock.pass(1000);
  assert.equal(brain.mayExpire(), true);
  clock.wall += 3_600_000;
  assert.equal(brain.mayExpire(), false);
  clock.pass(59_999);
  assert.equal(brain.mayExpire(), false);
  clock.pass(1);
  assert.equal(brain.mayExpire(), true);
});
