import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StartWorker, WorkerReady } from '../../model/pool-wire.ts';
import type { WorkerRecord } from './layout.ts';
import { mismatchOf } from './ready-check.ts';

const SAID = { model_ref: 'demo:a', uri: 'http://127.0.0.1:1', vram_bytes: 100 } as WorkerReady;

/** The field that does not fit; the device has room for 50 bytes more. */
function wrongField(said: Partial<WorkerReady>, order: Partial<StartWorker> = {}): string | undefined {
  const record = { order: { model_ref: 'demo:a', gpu_id: 0, ...order }, vramBytes: 100 } as WorkerRecord;
  const parts = {
    hasRoom: (_gpu: number, bytes: number) => bytes <= 50,
    allowsUri: (uri: string) => uri.includes('127.0.0.1'),
  };
  return mismatchOf({ ...SAID, ...said }, record, parts)?.field;
}

test('a worker that is what was ordered fits', () => {
  assert.equal(wrongField({}), undefined);
  assert.equal(wrongField({ vram_bytes: 1 }), undefined);
});

test('another model, and a place that is not allowed, do not', () => {
  assert.equal(wrongField({ model_ref: 'demo:b' }), 'model_ref');
  assert.equal(wrongField({ uri: 'http://elsewhere:1' }), 'uri');
});

test('it may need more than was guessed where there is more, and never more than was said', () => {
  assert.equal(wrongField({ vram_bytes: 150 }), undefined);
  assert.equal(wrongField({ vram_bytes: 151 }), 'vram_bytes');
  assert.equal(wrongField({ vram_bytes: 101 }, { vram_bytes: 100 }), 'vram_bytes');
});
