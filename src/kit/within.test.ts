import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { within } from './within.ts';

test('a promise that settles in time gives its value or its error', async () => {
  const { timers } = new VirtualEnv();
  assert.equal(await within(timers, 100, Promise.resolve('in time'), 'late'), 'in time');
  await assert.rejects(within(timers, 100, Promise.reject(new Error('no')), 'late'), new Error('no'));
});

test('a promise that settles later gives `late`, and its error is not an unhandled rejection', async () => {
  const virtual = new VirtualEnv();
  const slow = Promise.withResolvers<string>();
  const waiting = within(virtual.timers, 100, slow.promise, 'late');
  await virtual.pass(100);
  assert.equal(await waiting, 'late');
  slow.reject(new Error('too late to be heard'));
  await virtual.pass(1);
});

test('the timer is cancelled when the promise settles', async () => {
  let running = 0;
  const timers = {
    soon: setImmediate,
    after: () => {
      running++;
      return () => void running--;
    },
  };
  await within(timers, 100, Promise.resolve(1), 'late');
  await new Promise(setImmediate);
  assert.equal(running, 0);
});
