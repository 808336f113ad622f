import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../kit/env/env.ts';
import { BrainClock } from './brain-clock.ts';

class SetClock implements Clock {
  wall = Date.UTC(2026, 0, 1);
  since = 0;

  now(): number {
    return this.wall;
  }

  monotonic(): number {
    return this.since;
  }

  pass(ms: number): void {
    this.wall += ms;
    this.since += ms;
  }
}

test('after a step of the wall clock nothing expires for a minute, also where nobody has read it since', () => {
  const clock = new SetClock();
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
