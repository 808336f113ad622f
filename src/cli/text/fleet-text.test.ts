/** The texts about models and pools. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolView } from '../../model/http/pools.ts';
import { bytesText } from './bytes.ts';
import { detailedRows } from './model-text.ts';
import { poolsText } from './pool-text.ts';

const GIB = 2 ** 30;
const PLAIN = { isPerson: false, columns: undefined };

const POOL: PoolView = {
  pool_id: 'gpu-1',
  status: 'degraded',
  address: 'http://gpu-1:9200',
  region: 'eu',
  heard_at: 1000,
  draining: { by: 'ada', deadline: null },
  gpus: [
    { id: 0, total_vram: 24 * GIB, available_vram: 1.5 * GIB, leased_vram: 0, status: 'ok', reason: null },
    { id: 1, total_vram: 0, available_vram: 0, leased_vram: 0, status: 'error', reason: 'fell off the bus' },
  ],
  workers: [
    {
      worker_id: 'w1',
      model_ref: 'file:/m.gguf',
      gpu: 0,
      vram_used: 20 * GIB,
      status: 'busy',
      active: 1,
      slots: 4,
      why: 'jobs wait for it',
      unusable: null,
      error: null,
    },
    {
      worker_id: 'w2',
      model_ref: 'file:/n.gguf',
      gpu: 1,
      vram_used: 0,
      status: 'failed',
      active: 0,
      why: 'jobs wait for it',
      unusable: null,
      error: { code: 'WORKER_START_FAILED', message: 'no such device', retriable: true },
    },
  ],
};

test('a pool shows its address, its devices with memory, and its workers with model, state and slots', () => {
  assert.deepEqual(poolsText([POOL], PLAIN, 3000).split('\n'), [
    'gpu-1: degraded, http://gpu-1:9200, region eu, heard 2.0 s ago, drain ordered by ada',
    'DEVICE  STATE  MEMORY',
    '0       ok     1.5 GiB of 24.0 GiB free',
    '1       error  0 B of 0 B free; fell off the bus',
    'WORKER  STATE   DEVICE  SLOTS   MEMORY    MODEL         WHY',
    'w1      busy    0       1 of 4  20.0 GiB  file:/m.gguf  jobs wait for it',
    'w2      failed  1       -       0 B       file:/n.gguf  WORKER_START_FAILED: no such device',
  ]);
  const empty = {
    ...POOL,
    address: null,
    region: null,
    draining: null,
    gpus: [],
    workers: [],
    problem: 'odd',
  };
  assert.equal(poolsText([empty], PLAIN, 1000), 'gpu-1: degraded, heard 0 ms ago\nodd\nno workers');
});

test('a model shows where it comes from, and what is in use only to those who may know', () => {
  const numbers = { workers: 2, slots: 8 };
  const ofUpstreams = {
    name: 'm',
    source: 'backend' as const,
    model_ref: null,
    context_length: 5000,
    upstreams: ['a', 'b'],
    ...numbers,
  };
  const rows = detailedRows([
    {
      name: 'qwen3',
      source: 'catalog',
      model_ref: 'hf:q/q',
      context_length: 4096,
      state: 'ready',
      ...numbers,
      used: 3,
      waiting: 5,
    },
    { name: 'demo', source: 'backend', model_ref: null, context_length: null, state: 'down', ...numbers },
    { ...ofUpstreams, state: 'ready' },
    { ...ofUpstreams, state: 'down', problem: '"a" cannot be used: it restarts' },
  ]);
  assert.deepEqual(rows, [
    ['qwen3', 'ready', '4096', '2', '3 of 8', '5', 'hf:q/q'],
    ['demo', 'down', '-', '2', '8', '-', 'a backend offers it'],
    ['m', 'ready', '5000', '2', '8', '-', '"a", "b"'],
    ['m', 'down', '5000', '2', '8', '-', '"a" cannot be used: it restarts'],
  ]);
});

test('bytes are rounded for people', () => {
  assert.deepEqual([0, 1023, 1024, 1.5 * 2 ** 20, 139 * GIB, 2 ** 60].map(bytesText), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 MiB',
    '139 GiB',
    '1024 PiB',
  ]);
});
