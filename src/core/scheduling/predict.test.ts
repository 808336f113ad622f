import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { jobPosition, predictStartMs } from './predict.ts';

const predict = (kit: EngineKit, id: string): number | undefined =>
  predictStartMs(kit.job(id), jobPosition(kit.job(id)), kit.now);

/** A kit that has seen one job run for a second on a backend of that many slots, all taken now. */
function measured(slots = 1): EngineKit {
  const kit = new EngineKit();
  kit.backend('b', { slots });
  kit.submit('seen');
  kit.accept('seen');
  kit.pass(1000);
  kit.end('seen', SUCCESS);
  for (let n = 0; n < slots; n++) kit.submit(`runs${n}`);
  return kit;
}

test('the position counts the ready jobs ahead in the lane, batch behind interactive', () => {
  const kit = measured();
  for (const id of ['a', 'b']) kit.submit(id);
  kit.submit('person', { class: 'interactive' });
  kit.submit('elsewhere', { type: 'other' });
  const positions = ['person', 'a', 'b', 'elsewhere'].map((id) => jobPosition(kit.job(id)));
  assert.deepEqual(positions, [0, 1, 2, 0]);
});

test('a job that does not wait in a lane has no position', () => {
  const kit = measured();
  kit.submit('parked', { notBefore: kit.now + 1000 });
  assert.equal(jobPosition(kit.job('parked')), undefined);
  assert.equal(jobPosition(kit.job('runs0')), undefined);
  assert.equal(jobPosition(kit.job('seen')), undefined);
});

test('the predicted start follows from the jobs ahead, the measured time and the slots', () => {
  const kit = measured();
  for (const id of ['a', 'b', 'c']) kit.submit(id);
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => predict(kit, id)),
    [1000, 2000, 3000],
  );
  const wide = measured(2);
  for (const id of ['a', 'b', 'c', 'd']) wide.submit(id);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((id) => predict(wide, id)),
    [500, 1000, 1500, 2000],
  );
});

test('nothing is predicted where nothing was measured or nothing can run it', () => {
  const kit = new EngineKit();
  kit.submit('nobody');
  assert.equal(predict(kit, 'nobody'), undefined);
  kit.backend('b');
  kit.submit('second');
  assert.equal(predict(kit, 'second'), undefined);
  const down = measured();
  down.submit('a');
  assert.equal(predict(down, 'a'), 1000);
  down.step({ type: 'reachable', name: 'b', up: false });
  assert.equal(predict(down, 'a'), undefined);
});

test('what is known is told: a time to wait for, a start that is under way', () => {
  const kit = measured();
  kit.submit('parked', { notBefore: kit.now + 700 });
  assert.equal(predict(kit, 'parked'), 700);
  assert.equal(predict(kit, 'runs0'), 0);
});
