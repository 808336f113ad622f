import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { Flow } from './flow.ts';

/** The expected order: highest score first, then first come. */
const inOrder = (entries: readonly JobEntry[]): JobEntry[] =>
  [...entries].sort((a, b) => b.ask.spec.score - a.ask.spec.score || a.ask.n - b.ask.n);

function drain(flow: Flow): JobEntry[] {
  const entries: JobEntry[] = [];
  for (let head = flow.head(); head; head = flow.head()) {
    entries.push(head);
    flow.remove(head);
  }
  return entries;
}

test('the highest score goes first, and among equals the job that was admitted first', () => {
  const scores = fc.array(fc.record({ score: fc.integer({ min: -2, max: 2 }), stays: fc.boolean() }), {
    maxLength: 100,
    size: 'max',
  });
  fc.assert(
    fc.property(scores, fc.boolean(), (jobs, reversed) => {
      const flow = new Flow('someone');
      const entries = jobs.map(({ score }, at) => makeEntry(at + 1, { score }));
      // The order of arrival in the flow does not matter: parked jobs arrive late.
      for (const entry of reversed ? [...entries].reverse() : entries) flow.add(entry);
      const left = entries.filter((entry, at) => {
        if (!jobs[at]!.stays) flow.remove(entry);
        return jobs[at]!.stays;
      });
      assert.equal(flow.size, left.length);
      assert.deepEqual(drain(flow), inOrder(left));
    }),
  );
});

test('the rank counts the jobs that go before, however many there are', () => {
  const scores = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 1000, size: 'max' });
  fc.assert(
    fc.property(scores, (all) => {
      const flow = new Flow('someone');
      const entries = all.map((score, at) => makeEntry(at + 1, { score }));
      for (const entry of entries) flow.add(entry);
      // A job that was tried, and comes back, arrives last and has its old place.
      const again = entries[0]!;
      flow.remove(again);
      flow.add(again);
      for (const [rank, entry] of inOrder(entries).entries()) assert.equal(flow.rankOf(entry), rank);
    }),
    { numRuns: 50 },
  );
});
