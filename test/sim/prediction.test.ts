/** Predicted against real waiting times, on a replayed trace. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { medianError, type ReplayOptions, replay, type Told } from './replay.ts';

const TRACE: ReplayOptions = {
  seed: 7,
  backends: 2,
  slots: 2,
  loads: [
    { class: 'interactive', calm: 0.35, burst: 1.1, medianMs: 1500, sigma: 0.8 },
    { class: 'batch', calm: 0.28, burst: 0.7, medianMs: 4000, sigma: 0.8 },
  ],
  burstEveryMs: 600_000,
  burstMs: 90_000,
  lengthMs: 4 * 3_600_000,
};

const naive = ({ position, meanMs }: Told): number => position * meanMs!;
const told = ({ predictedMs }: Told): number => predictedMs!;

/** A single-seat account, and answers of much the same length. */
const SEAT: ReplayOptions = {
  ...TRACE,
  backends: 1,
  slots: 1,
  loads: [
    { class: 'interactive', calm: 0.09, burst: 0.27, medianMs: 1500, sigma: 0.3 },
    { class: 'batch', calm: 0.06, burst: 0.17, medianMs: 4000, sigma: 0.3 },
  ],
};

for (const [name, trace] of Object.entries({ 'four slots': TRACE, 'a single seat': SEAT })) {
  test(`the predicted start is nearer than place times mean service time, with or without the slots: ${name}`, (t) => {
    for (const seed of [7, 8, 9]) compare(t, trace, seed);
  });
}

function compare(t: TestContext, trace: ReplayOptions, seed: number): void {
  const slots = trace.backends * trace.slots;
  const all = replay({ ...trace, seed });
  assert.ok(all.length > 500, `${all.length} jobs waited`);
  for (const part of ['interactive', 'batch', 'all'] as const) {
    const some = all.filter((one) => part === 'all' || one.class === part);
    const errors = {
      predicted: medianError(some, told),
      bySlots: medianError(some, ({ position, meanMs }) => ((position + 1) * meanMs!) / slots),
      naive: medianError(some, naive),
    };
    const text = Object.entries(errors).map(([name, error]) => `${name} ${(100 * error).toFixed(0)} %`);
    t.diagnostic(`seed ${seed}, ${part} (${some.length} waited): median error ${text.join(', ')}`);
    assert.ok(errors.predicted < errors.naive);
    assert.ok(errors.predicted < errors.bySlots, 'knowing the slots alone is not enough');
  }
}
