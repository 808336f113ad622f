import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  type Fields,
  refusal,
  SETTINGS,
  STOPPED,
  SUCCESS,
  submission,
} from '../../../test/fakes/engine-kit.ts';
import { causeName } from '../../model/causes.ts';
import { errorInfo } from '../../model/errors.ts';
import type { JobRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { Engine } from '../engine/engine.ts';
import type { Waits } from '../ports/backend.ts';
import { Restore } from '../restore.ts';
import { bundleOf } from '../state/job-entry.ts';
import { waitStateOf } from './waiting.ts';

/** Room for crowds. */
const ROOMY = { ...SETTINGS, queueCapacity: 20_000 };

const child = (id: string, fields: Fields = {}) => submission(id, { hash: `hash of ${id}`, ...fields });

const waits = (ids: readonly string[], fields: Partial<Waits> = {}): Waits => ({
  ok: 'waits',
  state: '{"so":"far"}',
  children: ids.map((id) => child(id, { type: 'part' })),
  needs: 'all',
  ...fields,
});

/** A kit with a job `run` that runs, beside a backend for its parts. */
function running(fields: Fields = {}, slots = 4): EngineKit {
  const kit = new EngineKit(ROOMY);
  kit.backend('runs', { slots, types: ['run'] });
  kit.backend('parts', { slots, types: ['part'] });
  kit.submit('run', { type: 'run', ...fields });
  kit.accept('run');
  return kit;
}

function finish(kit: EngineKit, id: string, outcome = SUCCESS): void {
  kit.accept(id);
  kit.end(id, outcome);
}

describe('a job that waits', () => {
  test('gives up its attempt, keeps its state, and has its jobs admitted in the same commit', () => {
    const kit = running();
    const { changes } = kit.end('run', waits(['run.1', 'run.2']));
    const { job, open, past } = kit.job('run');
    assert.equal(job.state, 'waiting');
    assert.equal(open, undefined);
    assert.equal(past, undefined, 'an attempt that ended by waiting is not kept');
    const closed = changes.flatMap((change) => (change.kind === 'attempt' ? [change.after?.outcome] : []));
    assert.equal(closed[0], 'waits');
    assert.deepEqual(job.wait, {
      step: 1,
      state: '{"so":"far"}',
      children: ['run.1', 'run.2'],
      needs: 'all',
      until: undefined,
    });
    const asks = changes.flatMap((change) => (change.kind === 'ask' ? [change.after] : []));
    assert.deepEqual(
      asks.map((ask) => [ask?.id, ask?.ancestors]),
      [
        ['run.1', ['run']],
        ['run.2', ['run']],
      ],
    );
  });

  test('goes on when all of its jobs have ended, however they did', () => {
    const kit = running();
    kit.end('run', waits(['run.1', 'run.2']));
    finish(kit, 'run.1');
    assert.equal(kit.state('run'), 'waiting');
    finish(kit, 'run.2', { ok: false, error: { ...errorInfo('EXECUTION_FAILED'), retriable: false } });
    assert.equal(kit.state('run.2'), 'dead');
    assert.equal(kit.job('run').job.wait?.woken, 'children');
    assert.equal(kit.state('run'), 'claimed', 'it has a free backend');
    finish(kit, 'run');
    assert.deepEqual([kit.state('run'), kit.job('run').job.wait], ['succeeded', undefined]);
  });

  test('goes on when one of its jobs has ended, if one is enough', () => {
    const kit = running();
    kit.end('run', waits(['run.1', 'run.2'], { needs: 'any' }));
    assert.equal(kit.state('run'), 'waiting');
    finish(kit, 'run.2');
    assert.equal(kit.job('run').job.wait?.woken, 'children');
    assert.equal(kit.state('run.1'), 'claimed');
  });

  test('has been in the queue since it goes on, and not since it was submitted', () => {
    const kit = running();
    kit.end('run', waits([], { forMs: 5000 }));
    kit.submit('other', { type: 'run' });
    const from = kit.now;
    kit.pass(5000);
    assert.equal(kit.job('run').readyAt, from + 5000);
  });

  test('goes on at its instant', () => {
    const kit = running();
    kit.end('run', waits(['run.1'], { forMs: 5000 }));
    kit.pass(4999);
    assert.equal(kit.state('run'), 'waiting');
    kit.pass(1);
    assert.deepEqual([kit.state('run'), kit.job('run').job.wait?.woken], ['claimed', 'time']);
  });

  test('counts its tries for each part of its work', () => {
    const kit = running({ max_tries: 2 });
    kit.end('run', FAILED_FOR_NOW);
    kit.pass(1000);
    kit.accept('run');
    assert.equal(kit.job('run').job.tries, 1);
    kit.end('run', waits([], { forMs: 0 }));
    kit.pass(1);
    kit.accept('run');
    kit.end('run', FAILED_FOR_NOW);
    kit.pass(1000);
    assert.equal(kit.state('run'), 'claimed', 'it has two tries again');
  });

  test('goes on with an answer, which is taken once and for this wait alone', () => {
    const kit = running();
    kit.end('run', waits([], {}));
    const answer = (step: number) =>
      kit.step({ type: 'answer', uid: 'run', step, answer: '"yes"' }).reply as { code?: string };
    assert.equal(answer(2).code, 'ILLEGAL_STATE');
    assert.equal(kit.state('run'), 'waiting');
    answer(1);
    const { wait } = kit.job('run').job;
    assert.deepEqual([wait?.woken, wait?.answer], ['answer', '"yes"']);
    assert.equal(answer(1).code, 'ILLEGAL_STATE');
  });

  test('is cancelled at once, and its jobs with it', () => {
    const kit = running();
    kit.end('run', waits(['run.1']));
    kit.step({ type: 'cancel', uid: 'run', by: 'somebody' });
    assert.equal(kit.state('run'), 'cancelled');
    kit.end('run.1', STOPPED);
    assert.equal(kit.state('run.1'), 'cancelled');
  });

  test('dies at its deadline', () => {
    const kit = running({ deadline_ms: 3000 });
    kit.end('run', waits(['run.1'], { forMs: 5000 }));
    kit.pass(3000);
    assert.deepEqual([kit.state('run'), kit.job('run').job.reason], ['dead', 'expired']);
  });

  test('that dies at its deadline takes the jobs below it along', () => {
    const kit = running({ deadline_ms: 3000 }, 1);
    kit.end('run', waits(['run.1', 'run.2']));
    kit.accept('run.1');
    kit.submit('other', { type: 'part' });
    kit.pass(3000);
    assert.deepEqual(
      [kit.state('run'), kit.state('run.2'), kit.state('other')],
      ['dead', 'cancelled', 'queued'],
    );
    assert.equal(kit.job('run.1').job.cancel?.by, 'deadline');
    kit.end('run.1', STOPPED);
    assert.equal(kit.state('run.1'), 'cancelled');
  });

  test('does not wait after a cancel, and has no jobs admitted', () => {
    const kit = running();
    kit.step({ type: 'cancel', uid: 'run', by: 'somebody' });
    kit.end('run', waits(['run.1']));
    assert.equal(kit.state('run'), 'cancelled');
    assert.equal(kit.engine.state.jobs.has('run.1'), false);
  });

  test('learns which of its jobs were refused, and waits for the others alone', () => {
    const kit = running();
    kit.submit('taken', { type: 'part', hash: 'of another body' });
    kit.end('run', waits(['taken', 'run.1']));
    const { children, refused } = kit.job('run').job.wait ?? {};
    assert.deepEqual(children, ['run.1']);
    assert.deepEqual(
      refused?.map(({ id, error }) => [id, error.code]),
      [['taken', 'JOB_CONFLICT']],
    );
    finish(kit, 'run.1');
    assert.equal(kit.job('run').job.wait?.woken, 'children');
  });

  test('waits for the job that has the key of one that it wanted, and for one of two with the same id', () => {
    const kit = running();
    kit.submit('other', { type: 'part', key: 'k' });
    const children = [child('run.1', { type: 'part', key: 'k' }), child('run.2', { type: 'part' })];
    kit.end('run', {
      ...waits([]),
      children: [...children, child('run.2', { type: 'part', hash: 'another' })],
    });
    const { children: ids, refused } = kit.job('run').job.wait ?? {};
    assert.deepEqual(ids, ['other', 'run.2']);
    assert.deepEqual(
      refused?.map(({ id }) => id),
      ['run.2'],
    );
    finish(kit, 'run.2');
    assert.equal(kit.state('run'), 'waiting');
    finish(kit, 'other');
    assert.equal(kit.job('run').job.wait?.woken, 'children');
  });

  test('goes on at once if all of its jobs were refused', () => {
    const kit = running();
    const many = Array.from({ length: 101 }, (_, n) => `run.${n}`);
    kit.submit('taken', { type: 'part', hash: 'of another body' });
    kit.end('run', waits(['taken']));
    assert.deepEqual([kit.state('run'), kit.job('run').job.wait?.woken], ['claimed', 'children']);
    kit.accept('run');
    kit.end('run', waits(many));
    assert.deepEqual(
      kit.job('run').job.wait?.refused?.map(({ id }) => id),
      ['run.100'],
    );
  });

  test('comes into a full queue with its jobs, which stand in line at its place', () => {
    const kit = new EngineKit({ queueCapacity: 3 });
    kit.backend('runs', { slots: 1, types: ['run'] });
    kit.submit('run', { type: 'run' });
    kit.accept('run');
    for (const id of ['a', 'b', 'c']) kit.submit(id, { type: 'part' });
    kit.end('run', waits(['run.1', 'run.2']));
    kit.backend('parts', { slots: 1, types: ['part'] });
    const order: string[] = [];
    for (let n = 0; n < 5; n++) {
      const [next] = [...kit.engine.state.open.values()].filter(({ ask }) => ask.spec.type === 'part');
      order.push(next?.uid ?? '');
      finish(kit, next?.uid ?? '');
    }
    assert.deepEqual(order, ['run.1', 'run.2', 'a', 'b', 'c']);
  });

  test('keeps its place in its session, in which its jobs run beside it', () => {
    const kit = running({ session_id: 's' });
    kit.submit('next', { type: 'run', session_id: 's' });
    kit.end('run', { ...waits([]), children: [child('run.1', { type: 'part', session_id: 's' })] });
    assert.equal(kit.state('run.1'), 'claimed');
    assert.equal(kit.job('next').parked, 'session');
    finish(kit, 'run.1');
    finish(kit, 'run');
    assert.equal(kit.state('next'), 'claimed');
  });

  test('below another one, has its jobs run beside all jobs above it in their session', () => {
    const kit = running({ session_id: 's' });
    kit.end('run', { ...waits([]), children: [child('middle', { type: 'run' })] });
    kit.accept('middle');
    kit.end('middle', { ...waits([]), children: [child('leaf', { type: 'part', session_id: 's' })] });
    assert.equal(kit.state('leaf'), 'claimed');
  });

  test('is refused to wait beyond the bound of waiting jobs: that is a failed try', () => {
    const kit = new EngineKit({ maxWaiting: 1 });
    kit.backend('runs', { slots: 2, types: ['run'] });
    for (const id of ['first', 'second']) {
      kit.submit(id, { type: 'run' });
      kit.accept(id);
      kit.end(id, waits([], { forMs: 60_000 }));
    }
    assert.deepEqual([kit.state('first'), kit.state('second')], ['waiting', 'queued']);
    assert.equal(kit.job('second').job.error?.reason, 'max_waiting');
  });

  test('goes on with what it kept when it is redriven', () => {
    const kit = running({ max_tries: 1 });
    kit.end('run', waits([], { forMs: 0 }));
    kit.pass(1);
    finish(kit, 'run', FAILED);
    assert.equal(kit.state('run'), 'dead');
    kit.step({ type: 'redrive', uid: 'run', by: 'somebody', known: undefined });
    assert.equal(kit.job('run').job.wait?.state, '{"so":"far"}');
  });

  test('has a long state written once, and not again with every move', () => {
    const kit = running();
    kit.end('run', waits(['run.1'], { state: LONG }));
    finish(kit, 'run.1');
    assert.equal(kept(kit), LONG);
    kit.accept('run');
    kit.end('run', waits([], { forMs: 0, state: '{}' }));
    assert.equal(kept(kit), '{}');
    kit.pass(1);
    finish(kit, 'run');
    const written = kit.log.filter(({ change }) => JSON.stringify(change).includes('long'));
    assert.equal(written.length, 1);
    assert.equal(kit.engine.state.waitStates.get('run'), undefined);
  });

  test('has a long state in its own record when it ends without success, and goes on with it when redriven', () => {
    const kit = running({ max_tries: 1 });
    kit.end('run', waits([], { forMs: 0, state: LONG }));
    kit.pass(1);
    finish(kit, 'run', FAILED);
    assert.equal(kit.job('run').job.wait?.state, LONG);
    assert.equal(kit.engine.state.waitStates.get('run'), undefined);
    kit.step({ type: 'redrive', uid: 'run', by: 'somebody', known: undefined });
    assert.equal(kept(kit), LONG);
    kit.accept('run');
    kit.end('run', waits([], { forMs: 60_000, state: LONG.replace('long', 'next') }));
    assert.equal(kept(kit), LONG.replace('long', 'next'));
    kit.step({ type: 'cancel', uid: 'run', by: 'somebody' });
    assert.equal(kit.job('run').job.wait?.state, LONG.replace('long', 'next'));
  });
});

test('a state that is a blob now is named by the record of its job, unless the job has gone on', () => {
  const kit = running();
  kit.end('run', waits(['run.1'], { state: LONG }));
  const ref = { file: 1, offset: 0, bytes: LONG.length, crc: 0 };
  kit.step({ type: 'states-stored', states: [{ uid: 'run', step: 2, state: ref }] });
  assert.equal(kept(kit), LONG);
  const { changes } = kit.step({
    type: 'states-stored',
    states: [
      { uid: 'run', step: 1, state: ref },
      { uid: 'gone', step: 1, state: ref },
    ],
  });
  assert.deepEqual([kept(kit), kit.engine.state.waitStates.chars, changes.length], [ref, 0, 2]);
  finish(kit, 'run.1');
  assert.equal(kept(kit), ref);
});

const LONG = JSON.stringify({ long: 'x'.repeat(1000) });

const kept = (kit: EngineKit) => waitStateOf(kit.engine.state, kit.job('run'));

/** A job that waits for one other, with this many more below that one, all queued; the deadline of the first is at 3000. */
function crowd(count: number, id = 'run', kit = running({ deadline_ms: 3000 }, 2)): EngineKit {
  if (id !== 'run') {
    kit.submit(id, { type: 'run', deadline_ms: 3000 });
    kit.accept(id);
  }
  kit.end(id, waits([`${id}.1`]));
  for (let n = 0; n < count; n++) kit.submit(`${id}-${n}`, { type: 'never', parent_id: `${id}.1` });
  return kit;
}

const liveBelow = (kit: EngineKit, id: string): number => kit.engine.state.roster.descendants(id).size;

describe('a waiting job with many jobs below it', () => {
  test('cancels all of them at its deadline, a bounded number in a step, and ends with the last', () => {
    const kit = crowd(5000, 'other', crowd(5000));
    kit.now += 3000;
    let steps = 0;
    for (; kit.state('run') === 'waiting' || kit.state('other') === 'waiting'; steps++) {
      assert.ok(kit.engine.nextWake() <= kit.now, 'there is more to do');
      const { changes } = kit.step({ type: 'tick' });
      const ended = changes.filter(
        ({ kind, after }) => kind === 'job' && isTerminal((after as JobRecord).state),
      );
      assert.ok(ended.length <= 2001, `${ended.length} jobs in one step`);
    }
    assert.ok(steps > 4);
    for (const id of ['run', 'other']) {
      assert.deepEqual([kit.state(id), kit.job(id).job.reason], ['dead', 'expired']);
      kit.killed(`${id}.1`, { is: 'ended', outcome: STOPPED });
      assert.equal(liveBelow(kit, id), 0);
      assert.equal(kit.job(`${id}-4999`).job.cancel?.by, 'deadline');
    }
  });

  test('does not go on because the jobs that it waits for are cancelled first, nor by an answer', () => {
    const kit = crowd(5000);
    kit.now += 3000;
    kit.step({ type: 'tick' });
    kit.killed('run.1', { is: 'ended', outcome: STOPPED });
    assert.deepEqual([kit.state('run.1'), kit.state('run')], ['cancelled', 'waiting']);
    assert.throws(
      () => kit.order({ type: 'answer', uid: 'run', step: 1, answer: '1' }),
      refusal('ILLEGAL_STATE'),
    );
    kit.pass(0);
    assert.deepEqual([kit.state('run'), liveBelow(kit, 'run')], ['dead', 0]);
  });

  for (const from of ['checkpoint', 'log'] as const)
    test(`cancels the rest of them after a restart from the ${from}`, () => {
      const kit = crowd(5000);
      kit.now += 3000;
      kit.step({ type: 'tick' });
      assert.ok(liveBelow(kit, 'run') > 2000);
      const next = restarted(kit, from);
      next.pass(0);
      assert.equal(next.state('run'), 'dead');
      next.killed('run.1', { is: 'ended', outcome: STOPPED });
      assert.equal(liveBelow(next, 'run'), 0);
    });
});

/** A new engine with the records of the kit, as a checkpoint or as a log delivers them. */
function restarted(kit: EngineKit, from: 'checkpoint' | 'log'): EngineKit {
  const engine = new Engine({ settings: ROOMY, random: () => 0 });
  const restore = new Restore(engine.state, kit.now);
  const { jobs, seq } = kit.engine.state;
  if (from === 'checkpoint') for (const entry of jobs.values()) restore.job(bundleOf(entry));
  else for (const [at, { change }] of kit.log.entries()) restore.change(change, at + 1);
  restore.finish({ seq, at: kit.now, indexedUpTo: seq });
  const next = new EngineKit({}, () => 0, engine);
  next.now = kit.now;
  next.step({ type: 'open', owner: 'kit' });
  return next;
}

for (const from of ['checkpoint', 'log'] as const) {
  test(`after a restart from the ${from} a job waits for what it waited for, and goes on`, () => {
    const kit = running();
    kit.end('run', waits(['run.1', 'run.2'], { forMs: 9000 }));
    finish(kit, 'run.1');
    const next = restarted(kit, from);
    next.step({ type: 'tick' });
    assert.equal(next.state('run'), 'waiting');
    next.step({ type: 'found', token: next.token('run.2'), finding: { is: 'ended', outcome: SUCCESS } });
    assert.equal(next.job('run').job.wait?.woken, 'children');
    const late = restarted(kit, from);
    late.pass(9000);
    assert.equal(late.job('run').job.wait?.woken, 'time');
  });

  test(`a job whose jobs have ended goes on after a restart from the ${from}, if it did not before`, () => {
    const kit = running();
    kit.end('run', waits(['run.1']));
    kit.accept('run.1');
    const { wait } = kit.job('run').job;
    kit.end('run.1', SUCCESS);
    // The brain dies between the end of the job and the wake of the one that waits for it.
    const { log } = kit;
    log.splice(log.findIndex(({ change }) => causeName(change.cause) === 'wake'));
    Object.assign(kit.job('run'), {
      job: { ...kit.job('run').job, state: 'waiting', wait },
      open: undefined,
    });
    const next = restarted(kit, from);
    next.step({ type: 'tick' });
    assert.equal(next.job('run').job.wait?.woken, 'children');
  });
}

for (const from of ['memory', 'checkpoint', 'log'] as const) {
  const inSession = { type: 'run', session_id: 's', max_tries: 1 };
  /** A job of the session, which has waited too, has failed for good before `run`, which waits. */
  const waitingBehind = ({ slots = 4, isRedriven = false } = {}): EngineKit => {
    const kit = new EngineKit(ROOMY);
    kit.backend('runs', { slots, types: ['run'] });
    kit.backend('parts', { slots: 4, types: ['part'] });
    kit.submit('first', inSession);
    finish(kit, 'first', waits([], { forMs: 10 }));
    kit.pass(10);
    finish(kit, 'first', FAILED);
    kit.submit('run', { ...inSession, deadline_ms: 3_600_000 });
    if (isRedriven) {
      finish(kit, 'run', FAILED);
      kit.redrive('run');
    }
    kit.accept('run');
    const children = [child('run.1', { type: 'part', session_id: 's' })];
    kit.end('run', { ...waits([]), children });
    kit.accept('run.1');
    return kit;
  };
  const after = (kit: EngineKit): EngineKit => {
    const next = from === 'memory' ? kit : restarted(kit, from);
    next.step({ type: 'tick' });
    return next;
  };

  test(`[ADR-3] a job that is redriven begins after the one of its session that waits (${from})`, () => {
    const kit = waitingBehind();
    kit.redrive('first');
    const next = after(kit);
    assert.deepEqual([next.state('first'), next.job('first').parked], ['queued', 'session']);
    assert.equal(next.state('run'), 'waiting');
  });

  /** The job goes on when there is room, and has not been claimed yet. */
  const assertBefore = (kit: EngineKit): void => {
    assert.deepEqual([kit.state('run'), kit.state('first')], ['queued', 'queued']);
    assert.equal(kit.job('first').parked, 'session');
  };
  const onItsWay = (isRedriven = false): EngineKit => {
    const kit = waitingBehind({ slots: 1, isRedriven });
    // It takes the only slot.
    kit.submit('other', { type: 'run' });
    kit.accept('other');
    kit.end('run.1', SUCCESS);
    return kit;
  };

  test(`[ADR-3] a job that is redriven begins after the one of its session that goes on when there is room (${from})`, () => {
    const kit = onItsWay();
    kit.redrive('first');
    assertBefore(after(kit));
  });

  test(`[ADR-3] a job that is redriven begins after one that was redriven and has begun (${from})`, () => {
    const kit = onItsWay(true);
    kit.redrive('first');
    assertBefore(after(kit));
  });

  test(`[ADR-3] a job that is redriven begins after one that has begun before brain time was set back (${from})`, () => {
    const kit = onItsWay();
    kit.step({ type: 'clock-step', byMs: -60_000 });
    kit.now -= 60_000;
    kit.redrive('first');
    assertBefore(after(kit));
  });
}

test('an attempt that only decides is begun again after it was lost, and uses up no try', () => {
  const kit = new EngineKit();
  kit.backend('runs', { types: ['run'], isRepeatable: true });
  kit.submit('run', { type: 'run', max_tries: 1 });
  kit.accept('run');
  kit.step({ type: 'found', token: kit.token('run'), finding: { is: 'forgotten', isGone: true } });
  assert.deepEqual([kit.state('run'), kit.job('run').job.tries], ['claimed', 0]);
});
