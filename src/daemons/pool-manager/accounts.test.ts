import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceState, type Holder } from './accounts.ts';
import type { FoundDevice } from './nvidia.ts';

const gpu = (freeBytes: number | undefined, fault?: string): FoundDevice => ({
  ...{ id: 1, kind: 'nvidia', name: 'x', totalBytes: 100, freeBytes },
  ...(fault !== undefined && { fault }),
});
const holder = (vramBytes: number, hasItSince?: number, on = 1): Holder => ({
  ...{ id: `w${vramBytes}`, gpu: on, vramBytes, hasItSince },
});

test('what is promised counts until it is given back, on its own device', () => {
  const state = deviceState(gpu(100), [holder(30), holder(20, 5), holder(99, 5, 2)], 10);
  assert.equal(state.allocated_vram, 50);
  assert.equal(state.available_vram, 50);
  assert.deepEqual(state.workers, ['w30', 'w20']);
});

test('what others use is not there, and what was promised but not used yet is not free though it looks so', () => {
  assert.equal(deviceState(gpu(60), [holder(20, 5)], 10).available_vram, 60);
  assert.equal(deviceState(gpu(60), [holder(20)], 10).available_vram, 40);
  // It was asked for before the worker had it.
  assert.equal(deviceState(gpu(60), [holder(20, 11)], 10).available_vram, 40);
  assert.equal(deviceState(gpu(5), [holder(20)], 10).available_vram, 0);
});

test('without a word of the device only our own promises count; a broken one has nothing to give', () => {
  assert.equal(deviceState(gpu(undefined), [holder(30)], 0).available_vram, 70);
  assert.equal(deviceState(gpu(undefined), [holder(130)], 0).available_vram, 0);
  const broken = deviceState(gpu(100, 'it fell off the bus'), [], 0);
  assert.deepEqual(
    [broken.available_vram, broken.status, broken.reason],
    [0, 'error', 'it fell off the bus'],
  );
});
