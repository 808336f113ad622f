import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { predictEndMs } from './predict-batch.ts';

const SERVICE_MS = 1000;

/** A kit with a slot that is in use; without `isMeasured` no job has ended yet. */
function kitOf(isMeasured = true): EngineKit {
  const kit = new EngineKit();
  kit.backend('x', { slots: 1 });
  if (isMeasured) {
    kit.submit('seen');
    kit.accept('seen');
    kit.pass(SERVICE_MS);
    kit.end('seen', SUCCESS);
  }
  kit.submit('runs');
  return kit;
}

function predict(kit: EngineKit): number | undefined {
  const jobs = kit.engine.state.batches.jobs('default', 'b');
  assert.ok(jobs);
  return predictEndMs(jobs, kit.now, {});
}

test('a batch is predicted to end with the job that was admitted last, behind all that wait before it', () => {
  const kit = kitOf();
  for (const id of ['b.1', 'b.2']) kit.submit(id, { batch: 'b' });
  assert.equal(predict(kit), 3 * SERVICE_MS);
  kit.submit('other');
  kit.submit('b.3', { batch: 'b' });
  assert.equal(predict(kit), 5 * SERVICE_MS);
});

test('nothing is predicted before a service time was measured, nor once the last job waits for others or runs', () => {
  const unmeasured = kitOf(false);
  unmeasured.submit('b.1', { batch: 'b' });
  assert.equal(predict(unmeasured), undefined);
  const kit = kitOf();
  kit.submit('b.1', { batch: 'b' });
  kit.end('runs', SUCCESS);
  assert.equal(kit.state('b.1'), 'claimed');
  assert.equal(predict(kit), undefined);
  kit.submit('b.2', { batch: 'b', after: ['b.1'] });
  assert.equal(predict(kit), undefined);
});
