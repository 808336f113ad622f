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
