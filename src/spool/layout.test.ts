import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimOrder, jobName, jobOfLock, nameProblem, spoolPaths } from './layout.ts';

test('the places of a spool are the folders of the original', () => {
  const { places, tmp } = spoolPaths('/s');
  assert.deepEqual(places, {
    incoming: '/s/incoming',
    'in-progress': '/s/in-progress',
    succeeded: '/s/completed/succeeded',
    failed: '/s/completed/failed',
    killed: '/s/completed/killed',
    stale: '/s/jobs/stale',
  });
  assert.equal(tmp, '/s/tmp');
});

test('names of jobs are claimed by priority and arrival; others come before the usual priority', () => {
  const at = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
  const names = [
    jobName(9, at, 'a'.repeat(32)),
    jobName(5, at + 1, 'a'.repeat(32)),
    'report',
    jobName(5, at, 'b'.repeat(32)),
    jobName(5, at, 'a'.repeat(32)),
    '17',
    jobName(0, at + 1000, 'a'.repeat(32)),
  ];
  assert.equal(names[4], `p5-20260102T030405678-${'a'.repeat(20)}`);
  const sorted = names.toSorted((a, b) => (claimOrder(a) < claimOrder(b) ? -1 : 1));
  assert.deepEqual(
    sorted.map((name) => names.indexOf(name)),
    [6, 5, 2, 4, 3, 1, 0],
  );
});

test('a name is refused if it could be a lock, a path, hidden, or too long for its lock', () => {
  for (const name of ['job', 'a..b', 'ü', 'a b', 'x'.repeat(250)])
    assert.equal(nameProblem(name), undefined, name);
  for (const name of [
    '',
    '.',
    '..',
    '.x',
    'a.lock',
    'a/b',
    'a\nb',
    'a\0',
    'x'.repeat(251),
    'ü'.repeat(126),
    '\ud800',
  ])
    assert.notEqual(nameProblem(name), undefined, JSON.stringify(name));
});

test('a lock is told from a job by its name', () => {
  assert.equal(jobOfLock('a.lock'), 'a');
  assert.equal(jobOfLock('a.lock.x'), undefined);
});
