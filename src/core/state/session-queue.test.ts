import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import type { JobEntry, WritableRecords } from './job-entry.ts';
import { SessionQueue } from './session-queue.ts';

/** The order as a plain list: what the queue must agree with. */
function place(list: JobEntry[], entry: JobEntry): void {
  let at = entry.job.state === 'queued' ? list.length : 0;
  for (; at > 0; at--) {
    const before = list[at - 1] as JobEntry;
    if (before.job.state !== 'queued' || before.ask.n < entry.ask.n) break;
  }
  list.splice(at, 0, entry);
}

test('the queue agrees with a plain list, whatever jobs come, begin and leave', () => {
  const command = fc.record({ n: fc.nat(200), runs: fc.boolean(), leaves: fc.boolean() });
  fc.assert(
    fc.property(fc.array(command, { maxLength: 400 }), (commands) => {
      const entries = Array.from({ length: 201 }, (_, n) => makeEntry(n, { session_id: 's' }));
      const queue = new SessionQueue();
      const list: JobEntry[] = [];
      for (const { n, runs, leaves } of commands) {
        const entry = entries[n] as JobEntry;
        const at = list.indexOf(entry);
        if (at >= 0 && leaves) {
          assert.equal(queue.delete(entry), at === 0);
          list.splice(at, 1);
        } else if (at < 0) {
          // Only the head of a session runs: a job that joins while it runs is restored after a restart.
          const isFree = list.every(({ job }) => job.state === 'queued');
          (entry as WritableRecords).job = { ...entry.job, state: runs && isFree ? 'running' : 'queued' };
          queue.add(entry);
          place(list, entry);
        }
        assert.equal(queue.head, list[0]);
        assert.equal(queue.size, list.length);
      }
      while (list.length > 0) {
        assert.equal(queue.head, list[0]);
        queue.delete(list.shift() as JobEntry);
      }
      assert.equal(queue.head, undefined);
    }),
    { numRuns: 200 },
  );
});

test('each of 200,000 jobs leaves in constant time, from either end', () => {
  for (const order of ['oldest', 'newest']) {
    const queue = new SessionQueue();
    const entries = Array.from({ length: 200_000 }, (_, n) => makeEntry(n, { session_id: 's' }));
    for (const entry of entries) queue.add(entry);
    if (order === 'newest') entries.reverse();
    const before = process.cpuUsage().user;
    for (const entry of entries) queue.delete(entry);
    const ms = (process.cpuUsage().user - before) / 1000;
    assert.equal(queue.size, 0);
    assert.ok(ms < 2000, `${order} first: ${ms} ms`);
  }
});
