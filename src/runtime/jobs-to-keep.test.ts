import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobBelow } from '../core/ports/store.ts';
import { FRESH_JOB } from '../model/moves.ts';
import type { JobRecord } from '../model/records.ts';
import { jobsToKeep } from './jobs-to-keep.ts';

const NOW = 1000;
const ENDED_BEFORE = 900;

const waiting: JobRecord = { ...FRESH_JOB, state: 'waiting' };
const endedAt = (at: number): JobRecord => ({ ...FRESH_JOB, state: 'dead', endedAt: at });

const below = (ancestors: readonly string[], rootEndedAt?: number): JobBelow => ({
  uid: 'call',
  ancestors,
  rootEndedAt,
});

/** From when the time of the job counts; undefined where it is purged. */
function keptFrom(job: JobBelow, inMemory: Record<string, JobRecord> = {}): number | undefined {
  const jobs = new Map(Object.entries(inMemory).map(([uid, record]) => [uid, { job: record }]));
  return jobsToKeep([job], ENDED_BEFORE, NOW, jobs)[0]?.from;
}

test('a job below one that lives is kept, whether that is its root or not', () => {
  assert.equal(keptFrom(below(['run']), { run: waiting }), NOW);
  assert.equal(keptFrom(below(['job', 'run']), { run: waiting }), NOW, 'below a job that is gone');
  assert.equal(keptFrom(below(['job', 'run'], 10), { run: waiting }), NOW, 'below a job that ended long ago');
  assert.equal(keptFrom(below(['run'], 10), { run: waiting }), NOW, 'below one that lives again');
});

test('a job is kept as long as its root, which may not be in the history yet', () => {
  assert.equal(keptFrom(below(['run'], 950)), 950);
  assert.equal(keptFrom(below(['run']), { run: endedAt(960) }), 960);
  assert.equal(keptFrom(below(['run'], ENDED_BEFORE)), ENDED_BEFORE);
});

test('a job is purged whose root was purged, or ended as long ago', () => {
  assert.equal(keptFrom(below(['run'])), undefined);
  assert.equal(keptFrom(below(['run'], 899)), undefined);
  assert.equal(keptFrom(below(['run'], 10), { other: waiting }), undefined);
});
