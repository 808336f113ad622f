/** What the history is told: every durable end once, and never that it has all of them when it does not. */

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

function feed(): { feed: HistoryFeed; told: [uids: string[], upTo: Seq][] } {
  const told: [string[], Seq][] = [];
  const index = (ended: readonly JobBundle[], upTo: Seq): void => {
    told.push([ended.map(({ uid }) => uid), upTo]);
  };
  return { feed: new HistoryFeed({ index }), told };
}

test('what a flush brought to its end is handed over with it, and what recovery found at the beginning', () => {
  const { feed: history, told } = feed();
  history.begin([entry('old', 3, { state: 'dead' })], 7);
  history.ended(entry('a', 8, { state: 'succeeded' }));
  history.flushed(9);
  history.flushed(11);
  assert.deepEqual(told, [
    [['old'], 7],
    [['a'], 9],
    [[], 11],
  ]);
});

test('an end that a redrive overtook holds the watermark back until the redrive is durable', () => {
  const { feed: history, told } = feed();
  history.begin([], 0);
  // Its end was change 4; it was redriven with change 9 before 4 was durable.
  history.movedOn(entry('redriven', 9, { state: 'queued', redrivenAt: 1 }));
  history.flushed(5);
  history.ended(entry('other', 6, { state: 'succeeded' }));
  history.flushed(7);
  history.flushed(9);
  assert.deepEqual(told.slice(1), [
    [[], 0],
    [['other'], 0],
    [[], 9],
  ]);
});

test('a job that goes on without having ended holds nothing back', () => {
  const { feed: history, told } = feed();
  history.begin([], 0);
  history.movedOn(entry('running', 9, { state: 'running' }));
  history.flushed(5);
  assert.deepEqual(told.at(-1), [[], 5]);
});
