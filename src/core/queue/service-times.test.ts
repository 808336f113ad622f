import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceTimes } from './service-times.ts';

test('few measurements give a mean and no spread', () => {
  const times = new ServiceTimes();
  assert.equal(times.meanMs, undefined);
  times.add(100);
  times.add(300);
  assert.deepEqual([times.meanMs, times.spread, times.residualMs], [200, 0, 200]);
});

test('a job with an unknown start has half its time left if all jobs take the same time, more if they differ', () => {
  const same = new ServiceTimes();
  for (let n = 0; n < 20; n++) same.add(100);
  assert.ok(Math.abs(same.residualMs - 50) < 1e-9);
  const mixed = new ServiceTimes();
  for (let n = 0; n < 50; n++) mixed.add(n % 2 === 0 ? 100 : 300);
  assert.ok(Math.abs(mixed.meanMs! - 200) < 1e-9);
  assert.ok(Math.abs(mixed.spread - 0.25) < 1e-9);
  assert.ok(Math.abs(mixed.residualMs - 125) < 1e-9);
});

test('the mean follows a change within a few hundred jobs', () => {
  const times = new ServiceTimes();
  for (let n = 0; n < 1000; n++) times.add(100);
  for (let n = 0; n < 500; n++) times.add(200);
  assert.ok(times.meanMs! > 195);
});

test('the remaining time shrinks with the elapsed time if jobs are alike, and less so if they differ much', () => {
  const alike = new ServiceTimes();
  const wild = new ServiceTimes();
  for (let n = 0; n < 400; n++) {
    alike.add(900 + (n % 21) * 10);
    wild.add(1000 * Math.exp(1.2 * Math.sin(n * 12.9898)));
  }
  assert.ok(Math.abs(alike.leftMs(0) - 1000) < 20);
  assert.ok(Math.abs(alike.leftMs(700) - 300) < 30);
  assert.ok(Math.abs(wild.leftMs(0) / wild.meanMs! - 1) < 0.05);
  assert.ok(
    wild.leftMs(2 * wild.meanMs!) > wild.meanMs! / 2,
    'a job that has run long is expected to run on',
  );
  for (const times of [alike, wild]) {
    for (const elapsed of [0, 1, 1e3, 9e3])
      assert.ok(times.leftMs(elapsed) > 0 && times.leftMs(elapsed) < 1e5);
    assert.equal(times.leftMs(1e6), 1e6, 'an outlier is expected to take as long again');
  }
});
