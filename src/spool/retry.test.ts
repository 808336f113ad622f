import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshLifecycle, type Lifecycle } from './envelope.ts';
import { decideRetry } from './retry.ts';
import { restingStatus } from './take.ts';

const job = (lifecycle: Partial<Lifecycle>, more = {}) => ({
  lifecycle: { ...freshLifecycle(2), ...lifecycle },
  hasResult: false,
  isKillOrdered: false,
  ...more,
});

test('a stale or failed job is queued again while it has retries, and killed afterwards', () => {
  for (const place of ['stale', 'failed'] as const) {
    assert.equal(decideRetry(place, job({ status: place, retry_count: 1 })).is, 'requeue');
    const last = decideRetry(place, job({ status: place, retry_count: 2 }));
    assert.deepEqual(last, { is: 'kill', reason: `${place} after 2 retries` });
  }
});

test('a job that was ordered to end is killed, one with a result has succeeded, one of a brain is left alone', () => {
  assert.equal(decideRetry('stale', job({ status: 'stale' }, { isKillOrdered: true })).is, 'kill');
  const finished = { hasResult: true, isKillOrdered: true };
  assert.equal(decideRetry('stale', job({ status: 'stale' }, finished)).is, 'finish');
  assert.equal(decideRetry('stale', job({ status: 'stale', token: 'job:1' }, finished)).is, 'leave');
});

test('a status that is not that of the place is carried out', () => {
  assert.equal(decideRetry('stale', job({ status: 'queued' })).is, 'forward');
});

test('a job of a dead agent goes to the place of its status if it has ended, and is stale otherwise', () => {
  const from = 'in-progress';
  for (const status of ['succeeded', 'failed', 'killed', 'stale'] as const)
    assert.equal(restingStatus({ from, status, hasResult: false }), status);
  for (const status of ['queued', 'in-progress'] as const) {
    assert.equal(restingStatus({ from, status, hasResult: false }), 'stale');
    assert.equal(restingStatus({ from, status, hasResult: true }), 'succeeded');
  }
});

test('a job of a dead watchdog, manager or person goes on to where it was brought, or back', () => {
  for (const from of ['incoming', 'stale', 'failed', 'killed'] as const)
    for (const status of ['queued', 'killed', 'failed'] as const)
      assert.equal(restingStatus({ from, status, hasResult: false }), status);
  assert.equal(restingStatus({ from: 'failed', status: 'failed', hasResult: true }), 'failed');
  assert.equal(restingStatus({ from: 'stale', status: 'stale', hasResult: true }), 'succeeded');
});
