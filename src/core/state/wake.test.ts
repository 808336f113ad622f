import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import type { JobSpec } from '../../model/job-spec.ts';
import { newAttempt } from '../../model/moves.ts';
import type { AttemptRecord, JobRecord } from '../../model/records.ts';
import type { JobEntry, WritableRecords } from './job-entry.ts';
import { nextWake } from './wake.ts';

const NEVER = Number.POSITIVE_INFINITY;
const PATIENCE = 500;

function entry(ask: Partial<JobSpec>, job: Partial<JobRecord>, open?: Partial<AttemptRecord>): JobEntry {
  const made = makeEntry(1, { createdAt: 0, ...ask });
  (made as WritableRecords).job = { ...made.job, ...job };
  if (open)
    (made as WritableRecords).open = {
      ...newAttempt({ job: 'j1', n: 1, backend: 'b', registry: undefined, epoch: 1, at: 0 }),
      ...open,
    };
  return made;
}

const cases: [what: string, wakesAt: number, entry: JobEntry][] = [
  ['a ready job without a deadline', NEVER, entry({}, {})],
  ['a ready job at its deadline', 900, entry({ deadline_ms: 900 }, {})],
  ['a job with a not_before', 200, entry({ not_before: 200, deadline_ms: 900 }, {})],
  ['a job whose deadline is before its not_before', 150, entry({ not_before: 200, deadline_ms: 150 }, {})],
  ['a job whose not_before has passed', NEVER, entry({ not_before: 100 }, {})],
  ['a retry', 300, entry({ not_before: 50 }, { attempt: 1, notBefore: 300 })],
  ['a claimed job', 900, entry({ deadline_ms: 900, timeout_ms: 50 }, { state: 'claimed' }, {})],
  [
    'a running job at its timeout',
    250,
    entry({ deadline_ms: 900, timeout_ms: 150 }, { state: 'running', startedAt: 100 }, {}),
  ],
  [
    'a running job at its deadline',
    200,
    entry({ deadline_ms: 200, timeout_ms: 150 }, { state: 'running', startedAt: 100 }, {}),
  ],
  [
    'a held unknown at its deadline',
    900,
    entry({ deadline_ms: 900, timeout_ms: 50 }, { state: 'stale', startedAt: 1 }, { state: 'unknown' }),
  ],
  [
    'a job with an unconfirmed cancel',
    600,
    entry(
      {},
      { state: 'running', cancel: { at: 100, by: 'x' } },
      { state: 'accepted', kill: { why: 'cancel', at: 100 } },
    ),
  ],
  [
    'a job with an unconfirmed timeout',
    700,
    entry({}, { state: 'running' }, { state: 'accepted', kill: { why: 'timeout', at: 200 } }),
  ],
  [
    'a job with an unconfirmed deadline',
    700,
    entry({}, { state: 'stale' }, { state: 'unknown', kill: { why: 'deadline', at: 200 } }),
  ],
  ['a job that has ended', NEVER, entry({ deadline_ms: 900 }, { state: 'dead' })],
];

for (const [what, wakesAt, made] of cases) {
  test(`nextWake of ${what} is ${wakesAt === NEVER ? 'never' : wakesAt}`, () => {
    assert.equal(nextWake(made, 100, PATIENCE), wakesAt);
  });
}
