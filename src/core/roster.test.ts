import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeEntry } from '../../test/fakes/engine-kit.ts';
import { Roster } from './roster.ts';

test('a key names its job until that job leaves, and a later holder keeps it', () => {
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

test('the same key of two tenants is two keys, whatever characters it has', () => {
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
  const jobs = [1, 2, 3].map((n) => makeEntry(n, { session: 's' }));
  const parallel = makeEntry(4, { session: 's', parallel: true });
  const other = makeEntry(5, { session: 'other' });
  for (const job of [...jobs, parallel, other]) assert.equal(roster.add(job), undefined);
  assert.deepEqual(
    jobs.map((job) => roster.mayRun(job)),
    [true, false, false],
  );
  assert.ok(roster.mayRun(parallel) && roster.mayRun(other));
  assert.equal(roster.sessionHead(jobs[2]!), jobs[0]);
  assert.equal(roster.remove(jobs[1]!), undefined, 'one that waited lets nobody run');
  assert.equal(roster.remove(jobs[0]!), jobs[2]);
  assert.ok(roster.mayRun(jobs[2]!));
  assert.equal(roster.remove(jobs[2]!), undefined);
});

test('a job that runs already takes the head of its session, and the one that stood there must wait', () => {
  const roster = new Roster();
  const [waiting, running] = [makeEntry(1, { session: 's' }), makeEntry(2, { session: 's' })];
  running.rec = { ...running.rec, state: 'running' };
  roster.add(waiting);
  assert.equal(roster.add(running), waiting);
  assert.deepEqual([roster.mayRun(running), roster.mayRun(waiting)], [true, false]);
});

test('children are known by their parent while they live, and pass to its parent when it ends', () => {
  const roster = new Roster();
  const root = makeEntry(1);
  const child = makeEntry(2, { parent: 'j1', root: 'j1' });
  const grandchildren = [3, 4].map((n) => makeEntry(n, { parent: 'j2', root: 'j1' }));
  for (const entry of [root, child, ...grandchildren]) roster.add(entry);
  assert.deepEqual([...roster.below(root)], [child, ...grandchildren]);
  assert.deepEqual([...roster.below(child)], grandchildren);
  roster.remove(child);
  assert.deepEqual([...roster.below(root)], grandchildren);
  for (const entry of grandchildren) roster.remove(entry);
  assert.deepEqual([...roster.below(root)], []);
});
