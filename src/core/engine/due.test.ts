import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, FAILED_FOR_NOW, STOPPED, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { ATTEMPT_STATES, type AttemptState, isOpen, JOB_STATES, type JobState } from '../../model/states.ts';
import { due, dueFor, type EffectKind } from './due.ts';

/** A kit with one backend, for which job "a" is claimed; it has not been offered yet. */
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
    ['an unknown attempt is inspected', 'stale', 'unknown', 'inspect', (kit) => void kit.lose('a')],
    [
      'an attempt that was turned away as busy is killed, to be certain that it never runs',
      'claimed',
      'intended',
      'kill',
      (kit) => void kit.offered('a', { is: 'busy' }),
    ],
    [
      'a running attempt of a cancelled job is killed',
      'running',
      'accepted',
      'kill',
      (kit) => {
        kit.accept('a');
        kit.cancel('a');
      },
    ],
    [
      'an attempt whose job has already ended as cancelled is still killed',
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
      'an attempt that ran too long, and whose job has ended, is still killed',
      'dead',
      'unknown',
      'kill',
      (kit) => {
        kit.accept('a');
        kit.pass(100 + 5000);
      },
    ],
    [
      'an absent attempt is killed: only a tombstone makes certain that it never runs',
      'stale',
      'unknown',
      'kill',
      (kit) => {
        kit.offered('a', { is: 'unknown' });
        kit.found('a', { is: 'absent' });
      },
    ],
    ['an offered attempt of an earlier brain is inspected', 'claimed', 'intended', 'inspect', restart],
    [
      'a running attempt of an earlier brain is inspected',
      'running',
      'accepted',
      'inspect',
      (kit) => {
        kit.accept('a');
        restart(kit);
      },
    ],
    [
      'a kill of an earlier brain is repeated',
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
      'a waiting retry needs nothing',
      'queued',
      undefined,
      undefined,
      (kit) => {
        kit.accept('a');
        kit.end('a', FAILED_FOR_NOW);
      },
    ],
    ['a succeeded job needs nothing', 'succeeded', undefined, undefined, (kit) => void kit.end('a', SUCCESS)],
    [
      'a cancelled job whose attempt has ended needs nothing',
      'cancelled',
      undefined,
      undefined,
      (kit) => {
        kit.cancel('a');
        kit.killed('a', { is: 'ended', outcome: STOPPED });
      },
    ],
    [
      'a waiting job needs nothing',
      'waiting',
      undefined,
      undefined,
      (kit) => {
        kit.accept('a');
        kit.end('a', { ok: 'waits', state: '1', children: [], needs: 'all' });
      },
    ],
    ['a dead job needs nothing', 'dead', undefined, undefined, (kit) => void kit.end('a', STOPPED)],
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

test('the cases above cover every state a job can be in after a commit, and every open state of an attempt', () => {
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
