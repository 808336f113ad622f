import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceState, type MemoryReservation } from './device-memory.ts';
import type { DetectedDevice } from './nvidia.ts';

const gpu = (freeBytes: number | undefined, fault?: string): DetectedDevice => ({
  ...{ id: 1, kind: 'nvidia', name: 'x', totalBytes: 100, freeBytes },
  ...(fault !== undefined && { fault }),
});
const reservation = (vramBytes: number, usedSince?: number, on = 1): MemoryReservation => ({
  ...{ workerId: `w${vramBytes}`, gpu: on, vramBytes, usedSince },
});

test('reservations count on their own device only', () => {
  const state = deviceState(gpu(100), [reservation(30), reservation(20, 5), reservation(99, 5, 2)], 10);
  assert.equal(state.allocated_vram, 50);
  assert.equal(state.available_vram, 50);
  assert.deepEqual(state.workers, ['w30', 'w20']);
});

test('memory of other programs is not available, nor is memory that is reserved but not used yet', () => {
  assert.equal(deviceState(gpu(60), [reservation(20, 5)], 10).available_vram, 60);
  assert.equal(deviceState(gpu(60), [reservation(20)], 10).available_vram, 40);
  // The probe was before the worker used its memory.
  assert.equal(deviceState(gpu(60), [reservation(20, 11)], 10).available_vram, 40);
  assert.equal(deviceState(gpu(5), [reservation(20)], 10).available_vram, 0);
});

test('without measured free memory only reservations count; a faulty device has nothing available', () => {
  assert.equal(deviceState(gpu(undefined), [reservation(30)], 0).available_vram, 70);
  assert.equal(deviceState(gpu(undefined), [reservation(130)], 0).available_vram, 0);
  const broken = deviceState(gpu(100, 'it fell off the bus'), [], 0);
  assert.deepEqual(
    [broken.available_vram, broken.status, broken.reason],
    [0, 'error', 'it fell off the bus'],
  );
});
