import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineEvent } from '../core/engine/areas.ts';
import type { AttemptRecord, Change } from '../model/records.ts';
import { observeCommit } from './observe-commit.ts';
import type { ObservedState } from './observer.ts';

const usage = { prompt: 3, completion: 4, decodeMs: 1 };
const outcome = { ok: true, result: '1', usage } as const;

const ended = (token: string, how: AttemptRecord['outcome'] = 'succeeded'): Change => ({
  kind: 'attempt',
  id: token,
  after: { state: 'ended', outcome: how } as AttemptRecord,
  cause: 'succeeded',
});

function usedIn(events: readonly EngineEvent[], changes: readonly Change[]): unknown[] {
  const used: unknown[] = [];
  const observer = {
    recovered: () => undefined,
    changed: () => undefined,
    used: (tokens: unknown, uid: string) => used.push([uid, tokens]),
  };
  observeCommit(observer, changes, 0, { events, tookMs: 0 }, {} as ObservedState);
  return used;
}

test('the tokens of an attempt are told by whichever report ends it', () => {
  const reports: EngineEvent[] = [
    { type: 'outcome', token: 'a:1', outcome },
    { type: 'found', token: 'b:2', finding: { is: 'ended', outcome } },
    { type: 'killed', token: 'c:1', answer: { is: 'ended', outcome } },
  ];
  assert.deepEqual(usedIn(reports, [ended('a:1'), ended('b:2'), ended('c:1')]), [
    ['a', usage],
    ['b', usage],
    ['c', usage],
  ]);
});

test('an attempt counts once, and only in the commit that ends it with success', () => {
  const report: EngineEvent = { type: 'outcome', token: 'a:1', outcome };
  assert.deepEqual(usedIn([report, report], [ended('a:1')]), [['a', usage]]);
  assert.deepEqual(usedIn([report], []), [], 'a late report');
  assert.deepEqual(usedIn([report], [ended('a:1', 'cancelled')]), []);
  assert.deepEqual(
    usedIn([{ type: 'outcome', token: 'a:1', outcome: { ok: true, result: '1' } }], [ended('a:1')]),
    [],
  );
});
