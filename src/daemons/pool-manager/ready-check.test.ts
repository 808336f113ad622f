import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StartWorker, WorkerReady } from '../../model/pool-wire.ts';
import type { ManagedWorkerRecord } from './layout.ts';
import { mismatchOf } from './ready-check.ts';

const REPORT = { model_ref: 'demo:a', uri: 'http://127.0.0.1:1', vram_bytes: 100 } as WorkerReady;

/** The field that does not match the order; the device has room for 50 more bytes. */
function wrongField(report: Partial<WorkerReady>, order: Partial<StartWorker> = {}): string | undefined {
  const record = {
    order: { model_ref: 'demo:a', gpu_id: 0, ...order },
    vramBytes: 100,
  } as ManagedWorkerRecord;
  const context = {
    hasRoom: (_gpu: number, bytes: number) => bytes <= 50,
    allowsUri: (uri: string) => uri.includes('127.0.0.1'),
  };
  return mismatchOf({ ...REPORT, ...report }, record, context)?.field;
}

test('a report that matches the order is accepted', () => {
  assert.equal(wrongField({}), undefined);
  assert.equal(wrongField({ vram_bytes: 1 }), undefined);
});

test('another model and an address that is not allowed are refused', () => {
  assert.equal(wrongField({ model_ref: 'demo:b' }), 'model_ref');
  assert.equal(wrongField({ uri: 'http://elsewhere:1' }), 'uri');
});

test('a worker may need more than was estimated if there is room, and never more than was ordered', () => {
  assert.equal(wrongField({ vram_bytes: 150 }), undefined);
  assert.equal(wrongField({ vram_bytes: 151 }), 'vram_bytes');
  assert.equal(wrongField({ vram_bytes: 101 }, { vram_bytes: 100 }), 'vram_bytes');
});
