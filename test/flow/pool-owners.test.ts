/** A pool manager and a worker that two brains use: a restored copy of a store, and its original that still lives. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkerState } from '../../src/model/pool-wire.ts';
import { testFolder } from './server-process.ts';
import { endsOf, poolProcess } from './site-kit.ts';

const ORIGINAL = { 'x-orchd-owner': 'original', 'x-orchd-epoch': '1' };
const COPY = { 'x-orchd-owner': 'copy', 'x-orchd-epoch': '1' };

/** Begins an execution that goes on until it is cancelled; settles when its first event has come. */
async function execute({ uri, token }: WorkerState): Promise<() => Promise<void>> {
  const headers = { ...ORIGINAL, authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ job_id: 'j1', prompt: 'word '.repeat(1000), max_tokens: 1000 });
  const running = await fetch(`${uri}/execute`, {
    method: 'POST',
    headers: { ...headers, 'idempotency-key': 'j1.1' },
    body,
  });
  assert.equal(running.status, 200);
  return async () => {
    const cancel = JSON.stringify({ job_id: 'j1', token: 'j1.1' });
    await fetch(`${uri}/cancel`, { method: 'POST', headers, body: cancel });
    await running.text();
  };
}

test('a worker that runs a job of one brain is neither drained nor stopped by another', async (t) => {
  const ends = endsOf(t);
  const env = { ORCHD_WORKER_DEMO_DELAY_MS: '100' };
  const { caller } = await poolProcess(ends, { folder: testFolder(ends), env });
  await caller.start('w1', 'demo:any');
  const worker = await caller.becomes('w1', 'ready');
  const end = await execute(worker);

  for (const [path, body] of [
    ['/v2/workers/stop', { worker_id: 'w1' }],
    ['/v2/workers/w1/drain', { deadline_ms: 1 }],
  ] as const) {
    const { status, body: answer } = await caller.ask('POST', path, body, COPY);
    assert.deepEqual([status, answer.error.code], [503, 'WORKER_BUSY'], path);
  }
  assert.notEqual((await caller.worker('w1'))?.status, 'draining');

  await end();
  assert.equal((await caller.ask('POST', '/v2/workers/stop', { worker_id: 'w1' }, COPY)).status, 200);
  await caller.goes('w1');
});

test('the brain whose jobs a worker runs may stop it', async (t) => {
  const ends = endsOf(t);
  const env = { ORCHD_WORKER_DEMO_DELAY_MS: '100' };
  const { caller } = await poolProcess(ends, { folder: testFolder(ends), env });
  await caller.start('w1', 'demo:any');
  const worker = await caller.becomes('w1', 'ready');
  await execute(worker);
  assert.equal((await caller.ask('POST', '/v2/workers/stop', { worker_id: 'w1' }, ORIGINAL)).status, 200);
  await caller.goes('w1');
});
