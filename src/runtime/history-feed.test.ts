/** The history receives each durable end once, and `upTo` never claims ends that it has not received. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askOf } from '../../test/fakes/folder-maker.ts';
import type { JobBundle, Seq } from '../core/ports/store.ts';
import { JobEntry } from '../core/state/job-entry.ts';
import { FRESH_JOB } from '../model/moves.ts';
import type { JobRecord } from '../model/records.ts';
import { HistoryFeed } from './history-feed.ts';

const entry = (uid: string, seq: Seq, job: Partial<JobRecord>): JobEntry =>
  new JobEntry(uid, askOf(uid, 1), { ...FRESH_JOB, ...job }, seq);

function feed(): { feed: HistoryFeed; indexed: [uids: string[], upTo: Seq][] } {
  const indexed: [string[], Seq][] = [];
  const index = (ended: readonly JobBundle[], upTo: Seq): void => {
    indexed.push([ended.map(({ uid }) => uid), upTo]);
  };
  return { feed: new HistoryFeed({ index }), indexed };
}

test('jobs found by recovery are passed on at the start, jobs ended by a flush with that flush', () => {
  const { feed: history, indexed } = feed();
  history.begin([entry('old', 3, { state: 'dead' })], 7);
  history.ended(entry('a', 8, { state: 'succeeded' }));
  history.flushed(9);
  history.flushed(11);
  assert.deepEqual(indexed, [
    [['old'], 7],
    [['a'], 9],
    [[], 11],
  ]);
});

test('an end that a redrive overtook holds the watermark back until the redrive is durable', () => {
  const { feed: history, indexed } = feed();
  history.begin([], 0);
  // The job ended with change 4 and was redriven with change 9 before 4 was durable.
  history.movedOn(entry('redriven', 9, { state: 'queued', redrivenAt: 1 }));
  history.flushed(5);
  history.ended(entry('other', 6, { state: 'succeeded' }));
  history.flushed(7);
  history.flushed(9);
  assert.deepEqual(indexed.slice(1), [
    [[], 0],
    [['other'], 0],
    [[], 9],
  ]);
});

test('a job that changes without having ended does not hold the watermark back', () => {
  const { feed: history, indexed } = feed();
  history.begin([], 0);
  history.movedOn(entry('running', 9, { state: 'running' }));
  history.flushed(5);
  assert.deepEqual(indexed.at(-1), [[], 5]);
});
