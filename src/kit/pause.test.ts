import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { pause } from './pause.ts';

/** Counts the listeners that are left on a signal, and the timers that are left waiting. */
function watched(virtual: VirtualEnv) {
  const controller = new AbortController();
  const { signal } = controller;
  const left = { listeners: 0, timers: 0 };
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...given: Parameters<typeof add>) => {
    left.listeners++;
    add(...given);
  };
  signal.removeEventListener = (...given: Parameters<typeof remove>) => {
    left.listeners--;
    remove(...given);
  };
  const timers = {
    ...virtual.timers,
    after: (ms: number, run: () => void) => {
      left.timers++;
      const cancel = virtual.timers.after(ms, run);
      return () => {
        left.timers--;
        cancel();
      };
    },
  };
  return { controller, signal, timers, left };
}

async function isOver(promise: Promise<void>): Promise<boolean> {
  return Promise.race([promise.then(() => true), new Promise<boolean>((no) => setImmediate(no, false))]);
}

test('pause waits exactly as long as requested', async () => {
  const virtual = new VirtualEnv();
  const waiting = pause(virtual.timers, 100);
  await virtual.pass(99);
  assert.equal(await isOver(waiting), false);
  await virtual.pass(1);
  assert.equal(await isOver(waiting), true);
});

test('an abort ends the pause at once and leaves neither a timer nor a listener', async () => {
  const virtual = new VirtualEnv();
  const { controller, signal, timers, left } = watched(virtual);
  const waiting = pause(timers, 100, signal);
  assert.deepEqual(left, { listeners: 1, timers: 1 });
  controller.abort();
  assert.equal(await isOver(waiting), true);
  assert.deepEqual(left, { listeners: 0, timers: 0 });
  await pause(timers, 100, signal);
  assert.deepEqual(left, { listeners: 0, timers: 0 });
});

test('a pause that runs its full time leaves no listener', async () => {
  const virtual = new VirtualEnv();
  const { signal, timers, left } = watched(virtual);
  const waiting = pause(timers, 100, signal);
  await virtual.pass(100);
  await waiting;
  assert.equal(left.listeners, 0);
});
