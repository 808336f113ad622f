import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Callers } from './callers.ts';

test('where many were told, the next frame waits until as many have come', () => {
  const callers = new Callers();
  assert.equal(callers.waitMs(100), 0, 'nobody is awaited at the start');
  callers.told(20, 100);
  callers.came(19);
  assert.equal(callers.waitMs(100.5), 1.5);
  callers.came(1);
  assert.equal(callers.waitMs(100.5), 0);
});

test('those who do not come are not waited for any longer than a moment', () => {
  const callers = new Callers();
  callers.told(20, 100);
  callers.came(3);
  assert.equal(callers.waitMs(102), 0);
});

test('a few are not waited for, also after many', () => {
  const callers = new Callers();
  callers.told(20, 100);
  callers.told(3, 100);
  assert.equal(callers.waitMs(100), 0);
});
