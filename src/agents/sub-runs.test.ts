/** How the runs that may begin below a run are shared out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RUN_TYPE } from '../model/run-jobs.ts';
import { type ChildJob, newRun, type RunState } from './run-state.ts';
import { runsLeft, sharedOut, withGivenBack } from './sub-runs.ts';

const AGENT = { name: 'a', model: 'm' };

const job = (id: string): ChildJob => ({
  job_id: id,
  type: RUN_TYPE,
  tags: { agent: 'a', event: 'branch' },
  payload: { agent: 'b', max_runs: 0 },
});

const askedFor = (run: RunState, ids: readonly string[]): RunState => ({
  ...run,
  asked: ids.map((jobId) => ({ jobId, callId: jobId, tool: 'b', hash: '' })),
});

/** Begins so many runs at once, as often as it may, in every run; returns how many have begun in all. */
function begunBelow(most: number, atOnce: number): number {
  let run: RunState = { ...newRun(AGENT, []), runsLeft: most };
  let begun = 0;
  while (runsLeft(run) >= atOnce) {
    const ids = Array.from({ length: atOnce }, (_, at) => `j${at}`);
    const next = sharedOut({ run: askedFor(run, ids), jobs: ids.map(job) });
    begun += atOnce;
    for (const { payload } of next.jobs as unknown as readonly { payload: { max_runs: number } }[])
      begun += begunBelow(payload.max_runs, atOnce);
    run = next.run;
  }
  return begun;
}

test('all runs below one are never more than it may have, however many each of them begins at once', () => {
  for (let most = 0; most <= 40; most++)
    for (let atOnce = 1; atOnce <= 5; atOnce++) {
      const begun = begunBelow(most, atOnce);
      assert.ok(begun <= most, `${begun} runs of ${most}, ${atOnce} at once`);
    }
  assert.equal(begunBelow(40, 1), 40);
});

test('a run that was not admitted gives its part back', () => {
  const run: RunState = { ...newRun(AGENT, []), runsLeft: 10 };
  const { run: after } = sharedOut({ run: askedFor(run, ['x', 'y']), jobs: [job('x'), job('y')] });
  assert.equal(runsLeft(after), 4);
  const end = { result: undefined, durationMs: 0 };
  const refused = [
    { ...end, jobId: 'x', isRefused: true },
    { ...end, jobId: 'y' },
  ];
  assert.equal(runsLeft(withGivenBack(after, refused)), 7);
});
