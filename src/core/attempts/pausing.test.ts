import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED_FOR_NOW,
  type Fields,
  SETTINGS,
  SUCCESS,
  submission,
} from '../../../test/fakes/engine-kit.ts';
import { causeText } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import { Engine } from '../engine/engine.ts';
import type { Waits } from '../ports/backend.ts';
import { Restore } from '../restore.ts';
import { explain } from '../scheduling/explain.ts';
import { bundleOf } from '../state/job-entry.ts';
import { SETTLED_PER_STEP } from './pausing.ts';

const waits = (...ids: string[]): Waits => ({
  ok: 'waits',
  state: '{}',
  children: ids.map((id) => submission(id, { hash: `hash of ${id}`, type: 'part', on_unknown: 'hold' })),
  needs: 'all',
});

/** Backends for runs and for their parts; without slots for parts they stay queued. */
function kitOf({ runs = 2, parts = 2 } = {}): EngineKit {
  const kit = new EngineKit();
  if (runs > 0) kit.backend('runs', { slots: runs, types: ['run'] });
  if (parts > 0) kit.backend('parts', { slots: parts, types: ['part'] });
  return kit;
}

function waitingRun(kit: EngineKit, ...parts: string[]): void {
  kit.submit('run', { type: 'run' });
  kit.accept('run');
  kit.end('run', waits(...parts));
}

const pause = (kit: EngineKit, uid = 'run', by = 'ann') => kit.step({ type: 'pause-job', uid, by }).reply;
const resume = (kit: EngineKit, uid = 'run', by = 'bob') => kit.step({ type: 'resume-job', uid, by }).reply;

function finish(kit: EngineKit, id: string): void {
  kit.accept(id);
  kit.end(id, SUCCESS);
}

const placeOf = (kit: EngineKit, id: string) => [kit.state(id), kit.job(id).parked];

const codeOf = (reply: unknown): string | undefined => (reply instanceof OrchdError ? reply.code : undefined);

function restarted(kit: EngineKit, from: 'checkpoint' | 'log'): EngineKit {
  const engine = new Engine({ settings: SETTINGS, random: () => 0 });
  const restore = new Restore(engine.state, kit.now);
  const { jobs, seq } = kit.engine.state;
  // In the opposite order: the jobs below come before the paused one.
  if (from === 'checkpoint') for (const entry of [...jobs.values()].reverse()) restore.job(bundleOf(entry));
  else for (const [at, { change }] of kit.log.entries()) restore.change(change, at + 1);
  restore.finish({ seq, at: kit.now, indexedUpTo: 0 });
  const next = new EngineKit({}, () => 0, engine);
  next.now = kit.now;
  next.step({ type: 'open', owner: 'kit' });
  return next;
}

describe('a paused job', () => {
  test('that has begun keeps its place in its session before older jobs that are redriven', () => {
    const kit = kitOf();
    kit.submit('old', { type: 'run', session_id: 's', max_tries: 1 });
    kit.accept('old');
    kit.end('old', FAILED_FOR_NOW);
    kit.submit('run', { type: 'run', session_id: 's' });
    kit.accept('run');
    kit.end('run', waits('part'));
    pause(kit);
    finish(kit, 'part');
    assert.equal(kit.state('run'), 'queued');
    kit.redrive('old');
    for (const each of [kit, restarted(kit, 'checkpoint'), restarted(kit, 'log')]) {
      each.backend('runs', { slots: 2, types: ['run'] });
      assert.deepEqual([each.state('old'), each.state('run')], ['queued', 'queued']);
      resume(each);
      assert.deepEqual([each.state('old'), each.state('run')], ['queued', 'claimed']);
    }
  });

  test('does not start, and starts when it is resumed', () => {
    const kit = kitOf({ runs: 0 });
    kit.submit('run', { type: 'run' });
    pause(kit);
    kit.backend('runs', { types: ['run'] });
    assert.deepEqual(placeOf(kit, 'run'), ['queued', 'paused']);
    const { code, text } = explain(kit.engine.state, kit.job('run')) ?? {};
    assert.deepEqual([code, text], ['paused', 'paused by "ann"']);
    resume(kit);
    assert.equal(kit.state('run'), 'claimed');
  });

  test('goes on to the end of its attempt, and keeps the outcome; what it asked for does not start', () => {
    const kit = kitOf();
    kit.submit('run', { type: 'run' });
    kit.accept('run');
    pause(kit);
    assert.equal(kit.state('run'), 'running');
    kit.end('run', waits('run.1'));
    assert.deepEqual([kit.state('run'), ...placeOf(kit, 'run.1')], ['waiting', 'queued', 'paused']);
    assert.match(explain(kit.engine.state, kit.job('run.1'))?.text ?? '', /"run" above it is paused/);
    resume(kit);
    assert.equal(kit.state('run.1'), 'claimed');
  });

  test('wakes when its jobs have ended, and starts only when it is resumed', () => {
    const kit = kitOf();
    waitingRun(kit, 'run.1', 'run.2');
    pause(kit);
    finish(kit, 'run.1');
    finish(kit, 'run.2');
    assert.deepEqual(placeOf(kit, 'run'), ['queued', 'paused']);
    assert.equal(kit.job('run').job.wait?.woken, 'children');
    kit.pass(3_600_000);
    assert.deepEqual(placeOf(kit, 'run'), ['queued', 'paused']);
    resume(kit);
    assert.equal(kit.state('run'), 'claimed');
  });

  test('holds jobs at any depth, whatever made them ready again, and no others', () => {
    const kit = kitOf({ parts: 4 });
    waitingRun(kit, 'run.1', 'run.2');
    kit.submit('deep', { type: 'part', parent_id: 'run.1' });
    kit.submit('other', { type: 'part' });
    for (const id of ['run.1', 'run.2', 'deep']) kit.accept(id);
    pause(kit);
    kit.end('deep', FAILED_FOR_NOW);
    kit.offered('other', { is: 'accepted' });
    kit.pass(60_000);
    assert.deepEqual(placeOf(kit, 'deep'), ['queued', 'paused']);
    kit.submit('late', { type: 'part', parent_id: 'run' });
    assert.deepEqual(placeOf(kit, 'late'), ['queued', 'paused']);
    assert.equal(kit.state('other'), 'running');
    resume(kit);
    assert.deepEqual([kit.state('deep'), kit.state('late')], ['claimed', 'queued']);
    assert.equal(kit.job('late').parked, undefined);
  });

  test('is not held any longer than the last of the pauses above it', () => {
    const kit = kitOf({ parts: 0 });
    waitingRun(kit, 'run.1');
    kit.submit('deep', { type: 'part', parent_id: 'run.1' });
    pause(kit);
    pause(kit, 'run.1');
    resume(kit);
    assert.equal(kit.job('deep').parked, 'paused');
    resume(kit, 'run.1');
    assert.equal(kit.job('deep').parked, undefined);
  });

  test('holds an unknown outcome that is decided as retry', () => {
    const kit = kitOf();
    waitingRun(kit, 'run.1');
    kit.accept('run.1');
    kit.step({ type: 'found', token: kit.token('run.1'), finding: { is: 'forgotten', isGone: true } });
    assert.equal(kit.state('run.1'), 'stale');
    pause(kit);
    kit.step({ type: 'resolve', uid: 'run.1', by: 'ann', how: { as: 'retry' } });
    assert.deepEqual(placeOf(kit, 'run.1'), ['queued', 'paused']);
  });

  test('keeps its deadline', () => {
    const kit = kitOf({ parts: 0 });
    kit.submit('run', { type: 'run', deadline_ms: 5000 });
    kit.accept('run');
    kit.end('run', waits('run.1'));
    pause(kit);
    kit.pass(5000);
    assert.deepEqual([kit.state('run'), kit.state('run.1')], ['dead', 'cancelled']);
  });

  test('can be cancelled, with all below it', () => {
    const kit = kitOf({ parts: 0 });
    waitingRun(kit, 'run.1');
    pause(kit);
    kit.step({ type: 'cancel', uid: 'run', by: 'ann' });
    assert.deepEqual([kit.state('run'), kit.state('run.1')], ['cancelled', 'cancelled']);
  });

  test('that has ended holds nothing below it any more', () => {
    const kit = kitOf({ parts: 0 });
    kit.submit('run', { type: 'run' });
    kit.accept('run');
    kit.submit('beside', { type: 'part', parent_id: 'run' });
    pause(kit);
    assert.equal(kit.job('beside').parked, 'paused');
    kit.end('run', SUCCESS);
    assert.equal(kit.job('beside').parked, undefined);
  });

  test('starts after a redrive: a redriven job begins anew', () => {
    const kit = kitOf({ runs: 0 });
    kit.submit('run', { type: 'run', deadline_ms: 1000 });
    pause(kit);
    kit.pass(1000);
    assert.equal(kit.state('run'), 'dead');
    kit.backend('runs', { types: ['run'] });
    kit.step({ type: 'redrive', uid: 'run', by: 'ann', known: undefined });
    assert.equal(kit.state('run'), 'claimed');
  });
});

test('pause and resume are one change each, with who did it, and repeating them changes nothing', () => {
  const kit = kitOf({ runs: 0 });
  kit.submit('run', { type: 'run' });
  const said = kit.log.length;
  for (const by of ['ann', 'carl']) pause(kit, 'run', by);
  assert.equal(kit.job('run').job.paused?.by, 'ann');
  for (const by of ['bob', 'carl']) resume(kit, 'run', by);
  const causes = kit.log.slice(said).map(({ change }) => `${change.kind} ${causeText(change.cause)}`);
  assert.deepEqual(causes, ['job pause:ann', 'job resume:bob']);
});

test('a job that has ended, or is being cancelled, cannot be paused, and an unknown one is not found', () => {
  const kit = kitOf();
  kit.submit('run', { type: 'run' });
  kit.accept('run');
  kit.step({ type: 'cancel', uid: 'run', by: 'ann' });
  assert.equal(codeOf(pause(kit)), 'ILLEGAL_STATE');
  kit.submit('done', { type: 'run' });
  finish(kit, 'done');
  assert.deepEqual([pause(kit, 'done'), resume(kit, 'done')].map(codeOf), ['ILLEGAL_STATE', 'ILLEGAL_STATE']);
  assert.deepEqual([pause(kit, 'none'), resume(kit, 'none')].map(codeOf), ['NOT_FOUND', 'NOT_FOUND']);
});

for (const from of ['checkpoint', 'log'] as const)
  test(`a restart from the ${from} keeps the pause of a job and of all below it`, () => {
    const kit = kitOf({ parts: 0 });
    waitingRun(kit, 'run.1');
    kit.submit('resumed', { type: 'run' });
    pause(kit, 'resumed');
    resume(kit, 'resumed');
    pause(kit);
    const next = restarted(kit, from);
    next.backend('runs', { slots: 2, types: ['run'] });
    next.backend('parts', { types: ['part'] });
    next.pass(0);
    assert.deepEqual(placeOf(next, 'run.1'), ['queued', 'paused']);
    assert.equal(next.job('resumed').parked, undefined);
    resume(next);
    assert.equal(next.state('run.1'), 'claimed');
  });

test('a pause with many jobs below it takes several steps, and none of them starts meanwhile', () => {
  const kit = new EngineKit({ queueCapacity: 10_000 });
  kit.backend('runs', { types: ['run'] });
  kit.submit('run', { type: 'run' });
  kit.accept('run');
  const count = 2 * SETTLED_PER_STEP + 10;
  const fields: Fields = { type: 'part', parent_id: 'run' };
  const submissions = Array.from({ length: count }, (_, at) => submission(`p${at}`, fields));
  kit.step({ type: 'submit', submissions });
  const parked = () => submissions.filter(({ id }) => kit.job(id).parked === 'paused').length;
  pause(kit);
  assert.equal(parked(), SETTLED_PER_STEP);
  assert.equal(kit.engine.nextWake(), 0, 'the next tick goes on');
  kit.backend('parts', { slots: count, types: ['part'] });
  assert.equal(kit.engine.state.counts.claimed, 0);
  kit.pass(0);
  assert.equal(parked(), count);
  resume(kit);
  kit.pass(0);
  assert.equal(kit.engine.state.counts.claimed, count);
});
