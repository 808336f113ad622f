import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { SharedValue } from './shared-value.ts';

test('a value is there as it was set last, however long it is', () => {
  const shared = new SharedValue<unknown>();
  const reader = new SharedValue<unknown>(shared.memory);
  assert.equal(reader.get(), undefined);
  for (const value of [{ held: ['a:1', 'ü'] }, { held: Array(20_000).fill('token:1') }, { held: [] }]) {
    shared.set(value);
    assert.deepEqual(reader.get(), value);
  }
});

test('a reader never sees a value that is half replaced', async () => {
  const shared = new SharedValue<number[]>();
  const script = `
    const { workerData, parentPort } = require('node:worker_threads');
    import(workerData.module).then(({ SharedValue }) => {
      const shared = new SharedValue(workerData.memory);
      let torn = 0;
      let seen = 0;
      while (seen < 2000) {
        const value = shared.get();
        if (!value) continue;
        seen += 1;
        if (value.some((each) => each !== value[0]) || value.length !== 1 + (value[0] % 1000)) torn += 1;
      }
      parentPort.postMessage(torn);
    });`;
  const module = new URL('./shared-value.ts', import.meta.url).href;
  const worker = new Worker(script, { eval: true, workerData: { module, memory: shared.memory } });
  const torn = new Promise<number>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  let isOver = false;
  void torn.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  for (let n = 1; !isOver; n++) {
    for (let more = 0; more < 50; more++, n++) shared.set(Array(1 + (n % 1000)).fill(n));
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(await torn, 0);
  await worker.terminate();
});
