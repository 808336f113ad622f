import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultThreads } from './llama-threads.ts';

test('one core is left for everything else, and there is always a thread', () => {
  for (const [cores, threads] of [
    [0.5, 1],
    [1, 1],
    [1.5, 1],
    [2, 1],
    [2.5, 1],
    [3, 2],
    [4.9, 3],
    [16, 15],
  ] as const) {
    assert.equal(defaultThreads(cores, 64), threads, `${cores} cores`);
  }
});

test('no more threads than the engine finds useful', () => {
  assert.equal(defaultThreads(16, 8), 8);
  assert.equal(defaultThreads(16, 0), 1);
});
