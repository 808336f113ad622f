import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import type { JobEntry, WritableRecords } from './job-entry.ts';
import { Roster } from './roster.ts';

test('a key finds its job until that job is removed, and a later holder keeps the key', () => {
  const roster = new Roster();
  const [first, second] = [makeEntry(1, { key: 'k' }), makeEntry(2, { key: 'k' })];
  roster.add(first);
  assert.equal(roster.byKey('default', 'k'), first);
  roster.remove(first);
  assert.equal(roster.byKey('default', 'k'), undefined);
  roster.add(second);
  roster.remove(first);
  assert.equal(roster.byKey('default', 'k'), second);
});

test('the same key of two tenants is two keys, whatever characters they contain', () => {
  const roster = new Roster();
  const theirs = makeEntry(1, { tenant: 'acme', key: 'k' });
  roster.add(theirs);
  assert.equal(roster.byKey('acme', 'k'), theirs);
  assert.equal(roster.byKey('default', 'k'), undefined);
  for (const key of ['acme~k', 'acme:k', 'acme/k', 'acme k', 'acme\u0000k', 'acme\nk']) {
    assert.equal(roster.byKey('default', key), undefined, JSON.stringify(key));
  }
});

test('jobs of a session run one at a time, in order; those marked parallel do not wait', () => {
  const roster = new Roster();
  const jobs = [1, 2, 3].map((n) => makeEntry(n, { session_id: 's' }));
  const parallel = makeEntry(4, { session_id: 's', parallel: true });
  const other = makeEntry(5, { session_id: 'other' });
  for (const job of [...jobs, parallel, other]) assert.equal(roster.joinSession(job), undefined);
  assert.deepEqual(
    jobs.map((job) => roster.mayRun(job)),
    [true, false, false],
  );
  assert.ok(roster.mayRun(parallel) && roster.mayRun(other));
  assert.equal(roster.sessionHead(jobs[2]!), jobs[0]);
  assert.equal(roster.leaveSession(jobs[1]!), undefined, 'one that waited lets nobody run');
  assert.equal(roster.leaveSession(jobs[0]!), jobs[2]);
  assert.ok(roster.mayRun(jobs[2]!));
  assert.equal(roster.leaveSession(jobs[2]!), undefined);
});

test('a redriven job regains its place in its session, behind jobs that have begun', () => {
  const roster = new Roster();
  const [first, second, third] = [1, 2, 3].map((n) => makeEntry(n, { session_id: 's' })) as [
    JobEntry,
    JobEntry,
    JobEntry,
  ];
  roster.joinSession(second);
  roster.joinSession(third);
  assert.equal(roster.joinSession(first), second, 'the one that stood first waits again');
  assert.ok(roster.mayRun(first));
  roster.leaveSession(first);
  (second as WritableRecords).job = { ...second.job, state: 'running' };
  assert.equal(roster.joinSession(first), undefined);
  assert.deepEqual([roster.mayRun(second), roster.leaveSession(second)], [true, first]);
});

test('a running job becomes the head of its session, and the former head must wait', () => {
  const roster = new Roster();
  const [waiting, running] = [makeEntry(1, { session_id: 's' }), makeEntry(2, { session_id: 's' })];
  (running as WritableRecords).job = { ...running.job, state: 'running' };
  roster.joinSession(waiting);
  assert.equal(roster.joinSession(running), waiting);
  assert.deepEqual([roster.mayRun(running), roster.mayRun(waiting)], [true, false]);
});

test('descendants finds the live jobs at any depth, also if the jobs between have ended', () => {
  const roster = new Roster();
  const child = makeEntry(2, { parent_id: 'j1', ancestors: ['j1'] });
  const grandchildren = [3, 4].map((n) => makeEntry(n, { parent_id: 'j2', ancestors: ['j1', 'j2'] }));
  for (const entry of [makeEntry(1), child, ...grandchildren]) roster.add(entry);
  assert.deepEqual([...roster.descendants('j1')], [child, ...grandchildren]);
  assert.deepEqual([...roster.descendants('j2')], grandchildren);
  roster.remove(child);
  assert.deepEqual([...roster.descendants('j1')], grandchildren);
  assert.deepEqual([...roster.descendants('j2')], grandchildren, 'although it has ended');
  for (const entry of grandchildren) roster.remove(entry);
  assert.deepEqual([...roster.descendants('j1'), ...roster.descendants('j2')], []);
});
