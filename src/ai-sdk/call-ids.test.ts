import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JOB_ID } from '../model/job-spec.ts';
import { CallIds, checkRun } from './call-ids.ts';

const PAYLOAD = { messages: [{ role: 'user', content: 'Hello' }], seed: 1 };

test('the same question of the same run has the same job in every start, whatever was asked before it', () => {
  const first = new CallIds();
  first.take('run', 'm', { messages: [] });
  const { jobId } = first.take('run', 'm', PAYLOAD);
  const again = new CallIds().take('run', 'm', { seed: 1, messages: PAYLOAD.messages });
  assert.equal(again.jobId, jobId);
  assert.match(jobId, new RegExp(JOB_ID));
});

test('another run, model or payload has another job', () => {
  const ids = [
    new CallIds().take('run', 'm', PAYLOAD),
    new CallIds().take('run2', 'm', PAYLOAD),
    new CallIds().take('run', 'n', PAYLOAD),
    new CallIds().take('run', 'm', { ...PAYLOAD, seed: 2 }),
  ].map(({ jobId }) => jobId);
  assert.equal(new Set(ids).size, ids.length);
});

test('a question that is asked again has a job of its own, the same one in the next start', () => {
  const starts = [new CallIds(), new CallIds()].map((ids) =>
    [1, 2, 3].map(() => ids.take('run', 'm', PAYLOAD)),
  );
  const [first, second] = starts.map((calls) => calls.map(({ jobId }) => jobId));
  assert.deepEqual(first, second);
  assert.equal(new Set(first).size, 3);
  assert.equal(new Set(starts[0]?.map(({ mark }) => mark)).size, 3);
});

test('a number that was given back is the next one', () => {
  const ids = new CallIds();
  const [one, two] = [ids.take('run', 'm', PAYLOAD), ids.take('run', 'm', PAYLOAD)];
  one.release();
  assert.equal(ids.take('run', 'm', PAYLOAD).jobId, one.jobId);
  assert.notEqual(ids.take('run', 'm', PAYLOAD).jobId, two.jobId);
});

test('memory is bounded: of many thousand questions the oldest are forgotten', () => {
  const ids = new CallIds();
  const first = ids.take('run', 'm', PAYLOAD);
  for (let n = 0; n < 10_000; n++) ids.take('run', 'm', { n });
  assert.equal(ids.take('run', 'm', PAYLOAD).jobId, first.jobId);
});

test('the longest run still makes a job id; what is no run is refused', () => {
  const run = checkRun('r'.repeat(80));
  assert.match(new CallIds().take(run, 'm', PAYLOAD).jobId, new RegExp(JOB_ID));
  for (const wrong of ['', 'r'.repeat(81), 'a b', 'a/b', '.a', 7, null])
    assert.throws(() => checkRun(wrong), /"run" must have 1 to 80 letters/);
});
