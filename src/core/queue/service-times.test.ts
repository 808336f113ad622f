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

test('what is left follows from how long it has run: less of it for times alike, more where they differ much', () => {
  const alike = new ServiceTimes();
  const wild = new ServiceTimes();
  for (let n = 0; n < 400; n++) {
    alike.add(900 + (n % 21) * 10);
    wild.add(1000 * Math.exp(1.2 * Math.sin(n * 12.9898)));
  }
  assert.ok(Math.abs(alike.leftMs(0) - 1000) < 20);
  assert.ok(Math.abs(alike.leftMs(700) - 300) < 30);
  assert.ok(Math.abs(wild.leftMs(0) / wild.meanMs! - 1) < 0.05);
  assert.ok(wild.leftMs(2 * wild.meanMs!) > wild.meanMs! / 2, 'one that runs long will run on');
  for (const times of [alike, wild]) {
    for (const elapsed of [0, 1, 1e3, 9e3])
      assert.ok(times.leftMs(elapsed) > 0 && times.leftMs(elapsed) < 1e5);
    assert.equal(times.leftMs(1e6), 1e6, 'what is unlike all others may take as long again');
  }
});
