/** The pool manager with real processes: what is ordered happens once, and what happens is said. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { livingOf, pool } from '../fakes/pool-kit.ts';
import { testFolder } from './server-process.ts';

test('a worker is started, becomes ready, is busy, drains and is stopped', async (t) => {
  const caller = await pool(t, testFolder(t));
  const ordered = await caller.start('w1', 'demo:good');
  assert.deepEqual([ordered.status, ordered.body], [200, { worker_id: 'w1', status: 'starting' }]);
  const ready = await caller.becomes('w1', 'ready');
  assert.equal(ready.vram_used, 1000);
  assert.deepEqual(
    [ready.slots, ready.context_length, ready.registry, ready.features],
    [2, 512, 'r1', ['chat']],
  );
  const { gpus } = await caller.state();
  assert.deepEqual(gpus[0]?.workers, ['w1']);
  assert.equal(gpus[0]?.allocated_vram, 10 * 2 ** 20);
  assert.equal(gpus[0]?.available_vram, 990 * 2 ** 20);
  await fetch(`${ready.uri}/busy`);
  await caller.becomes('w1', 'busy');
  await fetch(`${ready.uri}/idle`);
  await caller.becomes('w1', 'ready');
  assert.equal((await caller.drain('w1')).body.status, 'draining');
  const state = await caller.state();
  assert.equal((await caller.stop('w1')).status, 200);
  await caller.goes('w1');
  assert.deepEqual(livingOf(state, 'w1'), []);
  assert.equal((await caller.state()).gpus[0]?.allocated_vram, 0);
  assert.deepEqual((await caller.stop('w1')).body.error.code, 'WORKER_NOT_FOUND');
});
