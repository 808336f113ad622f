import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompleteState } from './complete-state.ts';
import { reportOf } from './report.ts';

test('a code outside of the catalogue becomes WORKER_START_FAILED, also the name of an inherited property', () => {
  for (const code of ['constructor', 'toString', '__proto__', 'SOMETHING_ELSE']) {
    const worker = { id: 'w', model_ref: 'demo:x', gpu: 0, vram_used: 1, started_at: '' };
    const error = { code, message: 'why' };
    const workers: CompleteState['workers'] = [{ ...worker, status: 'failed', error }];
    const state: CompleteState = { pool_id: 'p', registry: 'r', version: 1, gpus: [], workers };
    assert.deepEqual(reportOf(state, () => true).workers[0]?.error, {
      code: 'WORKER_START_FAILED',
      message: 'why',
      retriable: false,
    });
  }
});

test('[ORCH-1030] the state of a pool says what is free on its devices, and which workers run where', () => {
  const gpu = { total_vram: 24, allocated_vram: 16, available_vram: 7, workers: ['w'] };
  const worker = { id: 'w', model_ref: 'demo:x', gpu: 1, vram_used: 16, started_at: '', slots: 2 };
  const report = reportOf(
    {
      ...{ pool_id: 'p', registry: 'r', version: 1 },
      gpus: [
        { id: 0, ...gpu },
        { id: 1, ...gpu, available_vram: 0, status: 'error' },
      ],
      workers: [
        { ...worker, status: 'busy', uri: 'http://here:1' },
        { ...worker, id: 'v', status: 'ready', uri: 'http://elsewhere:1' },
        { ...worker, id: 'u', status: 'ready' },
      ],
    },
    (uri) => uri.startsWith('http://here:'),
  );
  assert.deepEqual(
    report.devices.map(({ id, totalBytes, availableBytes, ok }) => [id, totalBytes, availableBytes, ok]),
    [
      [0, 24, 7, true],
      [1, 24, 0, false],
    ],
  );
  assert.deepEqual(
    report.workers.map(({ id, modelRef, device, vramBytes, status, slots, unusable }) => [
      ...[id, modelRef, device, vramBytes, status, slots],
      unusable === undefined,
    ]),
    [
      ['w', 'demo:x', 1, 16, 'busy', 2, true],
      ['v', 'demo:x', 1, 16, 'ready', 2, false],
      ['u', 'demo:x', 1, 16, 'ready', 2, false],
    ],
  );
});
