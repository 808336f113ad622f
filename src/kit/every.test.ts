import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { every } from './every.ts';

test('run is called until cancelled, also when it is cancelled within a run', async () => {
  const virtual = new VirtualEnv();
  let runs = 0;
  const stop = every(virtual.timers, 100, () => {
    if (++runs === 3) stop();
  });
  await virtual.pass(99);
  assert.equal(runs, 0);
  await virtual.pass(1000);
  assert.equal(runs, 3);
});

test('a run that throws does not stop the next one', () => {
  const due: (() => void)[] = [];
  const timers = {
    soon: setImmediate,
    after: (_ms: number, run: () => void) => {
      due.push(run);
      return () => undefined;
    },
  };
  every(timers, 100, () => {
    throw new Error('no');
  });
  assert.throws(() => due[0]?.(), new Error('no'));
  assert.equal(due.length, 2);
});
