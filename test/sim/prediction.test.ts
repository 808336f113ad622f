/** What people who wait are told, against what then happened, on a replayed trace. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
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

test('the predicted start is nearer to the truth than the place times the mean service time', (t) => {
  const slots = TRACE.backends * TRACE.slots;
  for (const seed of [7, 8, 9]) {
    const all = replay({ ...TRACE, seed });
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
});
