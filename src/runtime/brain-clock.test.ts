import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
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

const START = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;
const DAY = 24 * 3_600_000;

class Watched {
  readonly clock = new ManualClock();
  readonly brain = new BrainClock(this.clock);
  readonly steps: number[] = [];
  readonly adopted: number[] = [];

  constructor() {
    this.brain.onStep = (byMs) => this.steps.push(byMs);
    this.brain.onAdopted = (byMs) => this.adopted.push(byMs);
  }

  step(byMs: number): void {
    this.clock.wall += byMs;
  }

  /** Lets time pass, and reads the clock every second as the sweep does. */
  pass(ms: number): number {
    for (let left = ms; left > 0; left -= 1000) {
      this.clock.pass(Math.min(left, 1000));
      this.brain.mayExpire();
    }
    return this.brain.now() - START;
  }
}

test('brain time follows small differences forward, and stands still for small ones back', () => {
  const { clock, brain, steps } = new Watched();
  clock.wall += 50_000;
  assert.equal(brain.now(), START + 50_000);
  clock.wall -= 40_000;
  assert.equal(brain.now(), START + 50_000);
  clock.pass(30_000);
  assert.equal(brain.now(), START + 50_000);
  clock.pass(15_000);
  assert.equal(brain.now(), START + 55_000);
  // The machine was busy for an hour while brain time stood still.
  clock.wall -= 50_000;
  clock.pass(60 * MINUTE);
  assert.equal(brain.now(), START + 5000 + 60 * MINUTE);
  assert.deepEqual([steps, brain.mayExpire()], [[], true]);
});

for (const byMs of [DAY, -DAY, 61_000, -61_000, 3650 * DAY]) {
  test(`a step by ${byMs} ms that is taken back within a minute changes nothing`, () => {
    const watched = new Watched();
    watched.pass(5000);
    watched.step(byMs);
    assert.equal(watched.brain.mayExpire(), false, 'nothing expires while it is in doubt');
    assert.equal(watched.pass(7000), 12_000);
    watched.step(-byMs);
    assert.equal(watched.brain.now(), START + 12_000);
    assert.equal(watched.brain.mayExpire(), true);
    assert.equal(watched.pass(10 * MINUTE), 12_000 + 10 * MINUTE);
    assert.deepEqual([watched.steps, watched.adopted], [[byMs], []]);
  });

  test(`a step by ${byMs} ms that has stood for a minute is adopted; nothing expires for a minute after it`, () => {
    const watched = new Watched();
    watched.pass(5000);
    watched.step(byMs);
    watched.pass(MINUTE - 1000);
    assert.deepEqual([watched.brain.now() - START, watched.adopted], [5000 + MINUTE - 1000, []]);
    watched.pass(1000 + 1000);
    assert.deepEqual([watched.brain.now(), watched.adopted], [watched.clock.wall, [byMs]]);
    assert.equal(watched.brain.mayExpire(), false);
    watched.pass(MINUTE);
    assert.deepEqual([watched.brain.mayExpire(), watched.brain.now()], [true, watched.clock.wall]);
  });
}

test('a step is noticed even if nothing has read the clock since', () => {
  const { clock, brain } = new Watched();
  clock.pass(1000);
  assert.equal(brain.mayExpire(), true);
  clock.wall += 60 * MINUTE;
  assert.equal(brain.mayExpire(), false);
});

test('a clock that jumps again and again is not adopted, and does not stop time for good', () => {
  const watched = new Watched();
  for (let turn = 1; turn <= 20; turn++) {
    watched.step(turn % 2 === 0 ? -DAY : DAY / 2);
    watched.pass(30_000);
  }
  assert.deepEqual([watched.brain.now() - START, watched.adopted], [20 * 30_000, []]);
  assert.deepEqual([watched.brain.mayExpire(), watched.brain.aheadMs], [true, 0]);
});

describe('at a start', () => {
  test('a wall clock behind the last commit is in doubt, reported, and adopted after a minute', () => {
    const watched = new Watched();
    watched.brain.startAt(START + DAY);
    assert.deepEqual([watched.steps, watched.brain.mayExpire()], [[-DAY], false]);
    assert.equal(watched.brain.now(), START + DAY);
    watched.pass(MINUTE + 1000);
    assert.deepEqual([watched.brain.now(), watched.adopted], [watched.clock.wall, [-DAY]]);
  });

  test('one that is set right within the minute changes nothing', () => {
    const watched = new Watched();
    watched.brain.startAt(START + DAY);
    watched.pass(20_000);
    watched.step(DAY);
    assert.equal(watched.brain.now(), START + DAY + 20_000);
    assert.deepEqual(watched.adopted, []);
  });

  test('the clock of the store counts, by its skew', () => {
    const { brain, steps } = new Watched();
    brain.startAt(START + DAY - 1000, DAY);
    assert.deepEqual([brain.now(), steps], [START + DAY, []]);
  });

  test('a clock that is days ahead of the last commit, or was stepped so far, is told once', () => {
    const booted = new Watched();
    booted.brain.startAt(START - 2 * DAY);
    assert.deepEqual([booted.brain.takeJump(), booted.brain.takeJump()], [true, false]);
    const stepped = new Watched();
    stepped.brain.startAt(START - 1000);
    assert.equal(stepped.brain.takeJump(), false);
    stepped.step(30 * DAY);
    stepped.pass(3 * MINUTE);
    assert.equal(stepped.brain.takeJump(), true);
  });

  test('every adopted step is told once, in whole milliseconds', () => {
    const watched = new Watched();
    watched.step(2 * 3_600_000 + 0.25);
    watched.pass(30_000);
    assert.equal(watched.brain.takeStep(), 0, 'it is in doubt');
    watched.pass(MINUTE);
    assert.deepEqual([watched.brain.takeStep(), watched.brain.takeStep()], [2 * 3_600_000, 0]);
    watched.step(-2 * 3_600_000 - 0.25);
    watched.pass(3 * MINUTE);
    assert.equal(watched.brain.takeStep(), -2 * 3_600_000);
  });

  test('while brain time is ahead of a wall clock in doubt, it says by how much', () => {
    const watched = new Watched();
    watched.brain.startAt(START + DAY);
    assert.equal(watched.brain.aheadMs, DAY);
    watched.pass(MINUTE + 1000);
    assert.deepEqual([watched.brain.aheadMs, watched.brain.takeStep()], [0, -DAY]);
    assert.equal(watched.brain.takeStep(), 0);
  });
});

test('a set-back is a whole number of milliseconds, so that the instants that it moves stay whole', () => {
  const watched = new Watched();
  watched.clock.monotonicMs += 0.3768;
  watched.pass(5000);
  watched.step(-DAY);
  for (let reading = 0; reading < 100; reading++) {
    watched.clock.wall += 1000;
    watched.clock.monotonicMs += 1000.0132;
    watched.brain.mayExpire();
  }
  const byMs = watched.brain.takeStep();
  assert.ok(Number.isInteger(byMs) && byMs < MINUTE - DAY, `${byMs}`);
});
