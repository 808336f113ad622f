import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, FAILED_FOR_NOW, STOPPED, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { ATTEMPT_STATES, type AttemptState, isOpen, JOB_STATES, type JobState } from '../../model/states.ts';
import { due, dueFor, type EffectKind } from './due.ts';

/** A kit with one backend that has claimed job "a". */
function claimed(): EngineKit {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a', { on_unknown: 'hold', timeout_ms: 100, max_tries: 2 });
  return kit;
}

type Case = [
  what: string,
  job: JobState,
  attempt: AttemptState | undefined,
  due: EffectKind | undefined,
  EngineKit,
];

function make(what: string, run: (kit: EngineKit) => void): EngineKit {
  const kit = claimed();
  run(kit);
  assert.ok(kit.engine.state.jobs.has('a'), what);
  return kit;
}

const CASES: Case[] = (
  [
    ['a claimed job is offered', 'claimed', 'intended', 'offer', () => undefined],
    ['a running job is followed', 'running', 'accepted', 'follow', (kit) => void kit.accept('a')],
    ['an unknown one is asked about', 'stale', 'unknown', 'inspect', (kit) => void kit.lose('a')],
    [
      'a busy one is killed for certainty',
      'claimed',
      'intended',
      'kill',
      (kit) => void kit.offered('a', { is: 'busy' }),
    ],
    [
      'a cancelled one that has not stopped is killed',
      'running',
      'accepted',
      'kill',
      (kit) => {
        kit.accept('a');
        kit.cancel('a');
      },
    ],
    [
      'one whose caller waits no longer is still killed',
      'cancelled',
      'accepted',
      'kill',
      (kit) => {
        kit.accept('a');
        kit.cancel('a');
        kit.pass(5000);
      },
    ],
    [
      'one that ran too long and is unknown now is killed',
      'stale',
      'unknown',
      'kill',
      (kit) => {
        kit.accept('a');
        kit.pass(100 + 5000);
      },
    ],
    [
      'an absent one is killed: only the tombstone is certain',
      'stale',
      'unknown',
      'kill',
      (kit) => {
        kit.offered('a', { is: 'unknown' });
        kit.found('a', { is: 'absent' });
      },
    ],
    ['an offer of a former brain is asked about', 'claimed', 'intended', 'inspect', restart],
    [
      'so is a run of a former brain',
      'running',
      'accepted',
      'inspect',
      (kit) => {
        kit.accept('a');
        restart(kit);
      },
    ],
    [
      'a kill of a former brain is given again',
      'running',
      'accepted',
      'kill',
      (kit) => {
        kit.accept('a');
        kit.cancel('a');
        restart(kit);
      },
    ],
    [
      'a retry that waits needs nothing',
      'queued',
      undefined,
      undefined,
      (kit) => {
        kit.accept('a');
        kit.end('a', FAILED_FOR_NOW);
      },
    ],
    ['nor does what succeeded', 'succeeded', undefined, undefined, (kit) => void kit.end('a', SUCCESS)],
    [
      'nor what was cancelled and has stopped',
      'cancelled',
      undefined,
      undefined,
      (kit) => {
        kit.cancel('a');
        kit.killed('a', { is: 'ended', outcome: STOPPED });
      },
    ],
    ['nor what is dead', 'dead', undefined, undefined, (kit) => void kit.end('a', STOPPED)],
  ] as [string, JobState, AttemptState | undefined, EffectKind | undefined, (kit: EngineKit) => void][]
).map(([what, job, attempt, effect, run]) => [what, job, attempt, effect, make(what, run)]);

function restart(kit: EngineKit): void {
  kit.step({ type: 'open', owner: 'next' });
}

for (const [what, job, attempt, kind, kit] of CASES) {
  test(what, () => {
    const entry = kit.job('a');
    assert.deepEqual([entry.job.state, entry.open?.state], [job, attempt]);
    const effect = dueFor(kit.engine, entry);
    assert.equal(effect?.kind, kind);
    if (effect) assert.deepEqual([effect.token, effect.backend, effect.after], ['a:1', 'b', entry.seq]);
    assert.deepEqual(due(kit.engine), effect ? [effect] : []);
  });
}

test('the cases above meet every state a job can rest in, and every open state of an attempt', () => {
  const jobs = new Set(CASES.map(([, job]) => job));
  // A failed job moves on to queued or dead in the same commit.
  assert.deepEqual(
    JOB_STATES.filter((state) => !jobs.has(state)),
    ['failed'],
  );
  const attempts = new Set(CASES.map(([, , attempt]) => attempt));
  assert.deepEqual(
    ATTEMPT_STATES.filter(isOpen).filter((state) => !attempts.has(state)),
    [],
  );
});
