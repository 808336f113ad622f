/** The state that Restore builds from the records of a store, in whatever order they are delivered. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AskFields, askOf, JobScript, NOW, newState } from '../../test/fakes/folder-maker.ts';
import { FRESH_JOB } from '../model/moves.ts';
import type { AttemptRecord, JobRecord } from '../model/records.ts';
import type { JobBundle } from './ports/store.ts';
import { Restore } from './restore.ts';
import type { State } from './state/state.ts';

const bundle = (uid: string, n: number, ask: AskFields = {}, job: Partial<JobRecord> = {}): JobBundle => ({
  uid,
  ask: askOf(uid, n, ask),
  job: { ...FRESH_JOB, ...job },
  attempts: [],
  seq: n,
});
const newest = (state: State): string[] => [...state.admitted.newestFirst()].map(({ uid }) => uid);

test('jobs are added in order of admission, before the changes that follow the records', () => {
  const state = newState();
  const restore = new Restore(state, NOW);
  for (const n of [3, 1, 2]) restore.job(bundle(`j${n}`, n));
  const later = new JobScript('later');
  for (const change of later.ask(8)) restore.change(change, 8);
  restore.finish({ seq: 8, at: NOW, indexedUpTo: 0 });
  assert.deepEqual(newest(state), ['later', 'j3', 'j2', 'j1']);
  assert.deepEqual([state.seq, state.jobs.get('later')?.seq], [8, 8]);
});

test('ended jobs that are in the history are not kept in memory; the others are, until the history has them', () => {
  const state = newState();
  const restore = new Restore(state, NOW);
  for (const n of [1, 2]) restore.job(bundle(`ended${n}`, n, {}, { state: 'dead', endedAt: NOW }));
  restore.job(bundle('live', 3));
  const open = { v: 3, job: 'held', n: 1, backend: 'b', state: 'unknown', at: NOW } as AttemptRecord;
  restore.job({ ...bundle('held', 4, {}, { state: 'cancelled', endedAt: NOW }), attempts: [open] });
  restore.finish({ seq: 9, at: NOW, indexedUpTo: 1 });
  assert.deepEqual(newest(state), ['held', 'live', 'ended2']);
  assert.deepEqual(
    [...state.ended].map(({ uid }) => uid),
    ['ended2'],
  );
});

test('timers are set by the clock of the store', () => {
  for (const [skewMs, parked] of [
    [0, 'not_before'],
    [5000, undefined],
  ] as const) {
    const state = newState();
    const restore = new Restore(state, NOW);
    restore.job(bundle('a', 1, { not_before: NOW + 4000 }));
    restore.finish({ seq: 1, at: NOW, indexedUpTo: 0, skewMs });
    assert.equal(state.jobs.get('a')?.parked, parked);
  }
});

test('only the last PAST_ATTEMPTS ended attempts of a job are restored, and the open one', () => {
  const state = newState();
  const restore = new Restore(state, NOW);
  const attempts = Array.from({ length: 20 }, (_, at) => {
    const is = at === 19 ? 'accepted' : 'ended';
    return { v: 3, job: 'a', n: at + 1, backend: 'b', state: is, at: NOW } as AttemptRecord;
  });
  restore.job({ ...bundle('a', 1, {}, { state: 'running', attempt: 20 }), attempts });
  restore.finish({ seq: 1, at: NOW, indexedUpTo: 0 });
  const entry = state.jobs.get('a');
  assert.deepEqual([entry?.open?.n, entry?.past?.length, entry?.past?.[0]?.n], [20, 16, 4]);
  assert.equal(state.open.get('a:20'), entry);
});
