import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceTimes } from './service-times.ts';

test('few measurements give a mean and say nothing of the spread', () => {
  const times = new ServiceTimes();
  assert.equal(times.meanMs, undefined);
  times.add(100);
  times.add(300);
  assert.deepEqual([times.meanMs, times.spread, times.residualMs], [200, 0, 200]);
});

test('a job that is met while it runs has half its time left where all take the same, more where they differ', () => {
  const same = new ServiceTimes();
  for (let n = 0; n < 20; n++) same.add(100);
  assert.ok(Math.abs(same.residualMs - 50) < 1e-9);
  const mixed = new ServiceTimes();
  for (let n = 0; n < 50; n++) mixed.add(n % 2 === 0 ? 100 : 300);
  assert.ok(Math.abs(mixed.meanMs! - 200) < 1e-9);
  assert.ok(Math.abs(mixed.spread - 0.25) < 1e-9);
  assert.ok(Math.abs(mixed.residualMs - 125) < 1e-9);
});

test('the mean follows a change within some hundred jobs', () => {
  const times = new ServiceTimes();
  for (let n = 0; n < 1000; n++) times.add(100);
  for (let n = 0; n < 500; n++) times.add(200);
  assert.ok(times.meanMs! > 195);
});
