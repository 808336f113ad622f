import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backendInfo } from '../../../test/fakes/engine-kit.ts';
import { Fleet } from './fleet.ts';
import { Running } from './running.ts';

test('the mean elapsed time is right after any starts and ends', () => {
  const running = new Running();
  assert.equal(running.elapsedMs('batch', 100), 0);
  running.enter('batch', 100);
  running.enter('batch', 300);
  running.enter('interactive', 350);
  assert.deepEqual([running.jobs('batch'), running.elapsedMs('batch', 400)], [2, 200]);
  running.leave('batch', 100);
  assert.equal(running.elapsedMs('batch', 400), 100);
  running.leave('batch', 300);
  running.leave('batch', 300);
  assert.deepEqual([running.jobs('batch'), running.elapsedMs('batch', 400)], [0, 0]);
  assert.equal(running.elapsedMs('interactive', 400), 50);
});

test('a backend that is added after its attempts has their start times', () => {
  const fleet = new Fleet();
  fleet.occupy('b', 100, 'interactive');
  fleet.put(backendInfo('b', { slots: 2 }));
  fleet.occupy('b', 200, 'interactive');
  const { running } = fleet.backends.get('b')!;
  assert.equal(running.elapsedMs('interactive', 300), 150);
  fleet.vacate('b', 200, 100, 'interactive');
  fleet.put(backendInfo('b', { slots: 2 }));
  assert.equal(fleet.backends.get('b')!.running.elapsedMs('interactive', 300), 100);
});
