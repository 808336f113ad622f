import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceState, type WorkerMemory } from './device-memory.ts';
import type { DetectedDevice } from './nvidia.ts';

const TOTAL = 100;
const PROBED_AT = 10;

const gpu = (freeBytes: number | undefined, fault?: string): DetectedDevice => ({
  ...{ id: 1, kind: 'nvidia', name: 'x', totalBytes: TOTAL, freeBytes },
  ...(fault !== undefined && { fault }),
});

/** A worker with `reserved` bytes that is starting, unless it has a time since when it uses them. */
const worker = (reserved: number, fields: Partial<WorkerMemory> = {}): WorkerMemory => ({
  workerId: `w${reserved}`,
  gpu: 1,
  reservedBytes: reserved,
  isOrdered: false,
  measured: undefined,
  usedSince: undefined,
  ...fields,
});
const ready = { usedSince: 5 };
const using = (bytes: number, at = PROBED_AT) => ({ measured: { bytes, at } });

interface Case {
  readonly what: string;
  readonly others: number;
  /** What our workers use in truth, as the device sees it. */
  readonly ours: number;
  readonly workers: readonly WorkerMemory[];
  readonly allocated: number;
  readonly available: number;
}

const CASES: readonly Case[] = [
  { what: 'nothing runs', others: 0, ours: 0, workers: [], allocated: 0, available: 100 },
  { what: 'only others', others: 40, ours: 0, workers: [], allocated: 0, available: 60 },
  {
    what: 'one is starting and has taken nothing',
    ...{ others: 40, ours: 0, workers: [worker(20)], allocated: 20, available: 40 },
  },
  {
    what: 'one is starting and has taken a part, which counts once',
    ...{ others: 40, ours: 15, workers: [worker(20, using(15))], allocated: 20, available: 40 },
  },
  {
    what: 'one is starting and has taken more than its estimate',
    ...{ others: 40, ours: 25, workers: [worker(20, using(25))], allocated: 25, available: 35 },
  },
  {
    what: 'ready and not measured: its reservation is taken to be in use',
    ...{ others: 40, ours: 20, workers: [worker(20, ready)], allocated: 20, available: 40 },
  },
  {
    what: 'ready after the probe: its reservation is not in use yet',
    ...{ others: 40, ours: 0, workers: [worker(20, { usedSince: 11 })], allocated: 20, available: 40 },
  },
  {
    what: 'an estimate that was too high gives the rest back',
    ...{
      others: 0,
      ours: 20,
      workers: [worker(60, { ...ready, ...using(20) })],
      allocated: 20,
      available: 80,
    },
  },
  {
    what: 'an estimate that was too low',
    ...{
      others: 10,
      ours: 40,
      workers: [worker(1, { ...ready, ...using(40) })],
      allocated: 40,
      available: 50,
    },
  },
  {
    what: 'a figure from before it was ready is not all that it needs',
    ...{
      others: 0,
      ours: 5,
      workers: [worker(60, { usedSince: 9, ...using(5, 8) })],
      allocated: 60,
      available: 40,
    },
  },
  {
    what: 'what was ordered stays kept, and only the rest of it is still free',
    ...{ others: 10, ours: 20, allocated: 30, available: 60 },
    workers: [worker(30, { ...ready, isOrdered: true, ...using(20) })],
  },
  {
    what: 'several at once',
    ...{ others: 10, ours: 35, allocated: 65, available: 25 },
    workers: [worker(50, { ...ready, ...using(30) }), worker(20, using(5)), worker(15)],
  },
  {
    what: 'more is promised than there is',
    ...{ others: 95, ours: 0, workers: [worker(20)], allocated: 20, available: 0 },
  },
];

test('memory of others, memory in use and memory kept for a worker count once each', () => {
  for (const { what, others, ours, workers, allocated, available } of CASES) {
    const state = deviceState(gpu(TOTAL - others - ours), workers, PROBED_AT);
    assert.deepEqual([state.allocated_vram, state.available_vram], [allocated, available], what);
  }
});

test('workers count on their own device only', () => {
  const state = deviceState(gpu(100), [worker(30), worker(20, ready), worker(99, { gpu: 2 })], PROBED_AT);
  assert.equal(state.allocated_vram, 50);
  assert.deepEqual(state.workers, ['w30', 'w20']);
});

test('without measured free memory only reservations count; a faulty device has nothing available', () => {
  assert.equal(deviceState(gpu(undefined), [worker(30)], 0).available_vram, 70);
  assert.equal(deviceState(gpu(undefined), [worker(130)], 0).available_vram, 0);
  const broken = deviceState(gpu(100, 'it fell off the bus'), [], 0);
  assert.deepEqual(
    [broken.available_vram, broken.status, broken.reason],
    [0, 'error', 'it fell off the bus'],
  );
});
