import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JOB_ID } from '../../model/job-spec.ts';
import { brainJobId, brainRequest } from './brain-request.ts';

const SPOOL = '0123456789abcdef';

test('every name of a folder gets a valid id of its own, and the same one each time', () => {
  const hashed = brainJobId(SPOOL, 'ä', 1).split('.')[2] as string;
  const names = ['job', 'job.1', '..', 'a b', 'ä', hashed, 'x'.repeat(80), 'x'.repeat(81), 'x'.repeat(250)];
  const ids = names.flatMap((name) => [1, 2, 10_000_000].map((n) => brainJobId(SPOOL, name, n)));
  for (const id of ids) assert.match(id, new RegExp(JOB_ID));
  assert.equal(new Set(ids).size, ids.length);
  assert.equal(brainJobId(SPOOL, 'job', 2), `spool.${SPOOL}.job.2`);
  assert.equal(brainJobId(SPOOL, 'a b', 1), brainJobId(SPOOL, 'a b', 1));
  assert.notEqual(brainJobId(SPOOL, 'job', 1), brainJobId('fedcba9876543210', 'job', 1));
});

test('a request is what POST /v2/tasks takes, or a text; it never ends with the agent that follows it', () => {
  const request = (prompt: unknown) => brainRequest(prompt, 'id');
  const sent = { job_id: 'id', on_disconnect: 'continue' };
  assert.deepEqual(request('Why?'), { is: 'request', body: { prompt: 'Why?', ...sent } });
  const own = { type: 'count', payload: [1], on_disconnect: 'cancel' };
  assert.deepEqual(request(own), { is: 'request', body: { type: 'count', payload: [1], ...sent } });
  for (const prompt of [null, 1, true, ['Why?']])
    assert.match((request(prompt) as { why: string }).why, /neither a request for a brain nor a text/);
  for (const field of ['job_id', 'key'])
    assert.match((request({ prompt: 'Why?', [field]: 'x' }) as { why: string }).why, new RegExp(field));
});
