import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LoopDelayMeter } from './loop-delay.ts';

const BLOCK_MS = 150;
const PERIOD_MS = 20;

/** The timer of the meter has fired at least twice. */
const periods = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 4 * PERIOD_MS));

function block(): void {
  for (const end = performance.now() + BLOCK_MS; performance.now() < end; );
}

test('a block is measured that begins right after the last answer, and one that has not ended when it is asked for', async () => {
  const meter = new LoopDelayMeter();
  await periods();
  meter.take();
  block();
  const { maxSec } = meter.take();
  assert.ok(maxSec >= (BLOCK_MS - 3 * PERIOD_MS) / 1000, `${maxSec} s`);
});

test('[FANO-10] a block of the event loop is measured', async () => {
  const meter = new LoopDelayMeter();
  await periods();
  block();
  await periods();
  const { p50Sec, p99Sec, maxSec } = meter.take();
  assert.ok(maxSec >= (BLOCK_MS - 2 * PERIOD_MS) / 1000, `${maxSec} s`);
  assert.ok(p50Sec <= p99Sec && p99Sec <= maxSec);
  await periods();
  await periods();
  assert.notDeepEqual(meter.take(), { p50Sec, p99Sec, maxSec }, 'each answer begins anew');
});
