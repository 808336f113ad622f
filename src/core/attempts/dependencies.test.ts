import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  refusal,
  STOPPED,
  SUCCESS,
} from '../../../test/fakes/engine-kit.ts';
import { recordsOf } from '../../../test/fakes/restored.ts';
import { Restore } from '../restore.ts';
import { explain } from '../scheduling/explain.ts';
import { SETTLED_PER_STEP } from './dependencies.ts';

function kitOf(slots = 10, capacity = 1000): EngineKit {
  const kit = new EngineKit({ queueCapacity: capacity });
  kit.backend('b', { slots });
  return kit;
}

/** A brain that was started on the records of another one. */
function restarted(kit: EngineKit, capacity: number): EngineKit {
  const again = new EngineKit({ queueCapacity: capacity });
  const { jobs, others, seq } = recordsOf(kit.engine.state);
  const restore = new Restore(again.engine.state, kit.now);
  for (const record of others.values()) restore.record(record);
  for (const bundle of jobs.values()) restore.job(bundle);
  restore.finish({ seq, at: kit.now, indexedUpTo: 0 });
  return again;
}

const endOf = (kit: EngineKit, uid: string) => {
  const { state, reason, error } = kit.job(uid).job;
  return [state, reason, error?.code];
};

describe('a job with `after`', () => {
  test('starts in the step in which the last of them succeeds, and not before', () => {
    const kit = kitOf();
    kit.submit('a');
    kit.submit('b');
    kit.submit('c', { after: ['a', 'b'] });
    assert.deepEqual(explain(kit.engine.state, kit.job('c')), {
      code: 'after',
      text: 'waits for the end of job "a" and another job',
    });
    kit.end('a', SUCCESS);
    assert.equal(kit.state('c'), 'queued');
    assert.equal(explain(kit.engine.state, kit.job('c'))?.text, 'waits for the end of job "b"');
    kit.end('b', SUCCESS);
    assert.equal(kit.state('c'), 'claimed');
  });

  test('is not in a lane while it waits', () => {
    const kit = kitOf(0);
    kit.submit('a');
    kit.submit('c', { after: ['a'] });
    assert.deepEqual([kit.job('a').isWaiting, kit.job('c').isWaiting], [true, false]);
  });

  test('is dead with reason dependency in the step in which one of them is dead or cancelled', () => {
    for (const end of [
      (kit: EngineKit) => void kit.end('a', FAILED),
      (kit: EngineKit) => {
        kit.cancel('a');
        kit.end('a', STOPPED);
      },
    ]) {
      const kit = kitOf();
      kit.submit('a');
      kit.submit('c', { after: ['a'] });
      kit.submit('d', { after: ['c'] });
      end(kit);
      for (const uid of ['c', 'd'])
        assert.deepEqual(endOf(kit, uid), ['dead', 'dependency', 'DEPENDENCY_FAILED']);
      assert.match(kit.job('c').job.error?.message ?? '', /"a"/);
      assert.match(kit.job('d').job.error?.message ?? '', /"c"/);
    }
  });

  test('waits while a job that it waits for is retried', () => {
    const kit = kitOf();
    kit.submit('a', { max_tries: 2 });
    kit.submit('c', { after: ['a'] });
    kit.accept('a');
    kit.end('a', FAILED_FOR_NOW);
    assert.equal(kit.state('c'), 'queued');
    kit.pass(1000);
    kit.end('a', SUCCESS);
    assert.equal(kit.state('c'), 'claimed');
  });

  test('with the policy `ended` starts after any end', () => {
    const kit = kitOf();
    kit.submit('a');
    kit.submit('b');
    kit.submit('c', { after: ['a', 'b'], after_policy: 'ended' });
    kit.end('a', FAILED);
    assert.equal(kit.state('c'), 'queued');
    kit.cancel('b');
    kit.end('b', STOPPED);
    assert.equal(kit.state('c'), 'claimed');
  });

  test('takes the ends of jobs that have left memory from the history', () => {
    const kit = kitOf();
    kit.submit('good', { after: ['old'], ends: new Map([['old', 'succeeded']]) });
    assert.equal(kit.state('good'), 'claimed');
    kit.submit('bad', { after: ['old'], ends: new Map([['old', 'dead']]) });
    assert.deepEqual(endOf(kit, 'bad'), ['dead', 'dependency', 'DEPENDENCY_FAILED']);
    kit.submit('any', { after: ['old'], ends: new Map([['old', 'dead']]), after_policy: 'ended' });
    assert.equal(kit.state('any'), 'claimed');
  });

  test('is dead at once if one of them, still in memory, has ended badly', () => {
    const kit = kitOf();
    kit.submit('a');
    kit.end('a', FAILED);
    kit.submit('c', { after: ['a'] });
    assert.deepEqual(endOf(kit, 'c'), ['dead', 'dependency', 'DEPENDENCY_FAILED']);
  });

  test('is not refused for good where a job that it names has left memory since it was looked up', () => {
    const kit = kitOf();
    const ends = new Map([['a', 'in memory']] as const);
    assert.throws(() => kit.submit('c', { after: ['a'], ends }), refusal('STORE_BUSY'));
  });

  test('is refused if it names an unknown job or itself, and leaves no change', () => {
    const kit = kitOf();
    const before = kit.log.length;
    assert.throws(
      () => kit.submit('c', { after: ['nobody'] }),
      refusal('ADMISSION_REJECT', 'unknown_dependency'),
    );
    assert.throws(() => kit.submit('c', { after: ['c'] }), refusal('ADMISSION_REJECT', 'unknown_dependency'));
    assert.equal(kit.log.length, before);
  });

  test('is told so if it names a batch', () => {
    const kit = kitOf();
    kit.submit('a', { batch: 'all' });
    assert.throws(() => kit.submit('c', { after: ['all'] }), /"all" is a batch; after takes job ids/);
  });

  test('does not wait for a job of the same id of another tenant', () => {
    const kit = kitOf();
    kit.submit('a');
    assert.throws(
      () => kit.submit('c', { after: ['a'], tenant: 'other' }),
      refusal('ADMISSION_REJECT', 'unknown_dependency'),
    );
    kit.submit('a', { tenant: 'other' });
    kit.submit('c', { after: ['a'], tenant: 'other' });
    kit.end('a', FAILED);
    assert.equal(kit.state('other~c'), 'queued');
    kit.end('other~a', SUCCESS);
    assert.equal(kit.state('other~c'), 'claimed');
  });

  test('does not wait again once it has been claimed', () => {
    const kit = kitOf();
    kit.submit('a');
    kit.submit('c', { after: ['a'], after_policy: 'ended' });
    kit.end('a', FAILED);
    kit.accept('c');
    kit.end('c', FAILED_FOR_NOW);
    kit.redrive('a');
    kit.pass(1000);
    assert.deepEqual([kit.state('a'), kit.state('c')], ['claimed', 'claimed']);
  });

  test('expires by its deadline while it waits', () => {
    const kit = kitOf();
    kit.submit('a');
    kit.submit('c', { after: ['a'], deadline_ms: 100 });
    kit.pass(100);
    assert.deepEqual(endOf(kit, 'c'), ['dead', 'expired', 'DEADLINE_EXCEEDED']);
    kit.end('a', SUCCESS);
    assert.equal(kit.state('c'), 'dead');
  });
});

describe('a redrive of a job that is dead by a dependency', () => {
  function diamond(): EngineKit {
    const kit = kitOf();
    kit.submit('top');
    kit.submit('left', { after: ['top'] });
    kit.submit('right', { after: ['top'] });
    kit.submit('bottom', { after: ['left', 'right'] });
    kit.end('top', SUCCESS);
    kit.end('left', FAILED);
    return kit;
  }

  test('is refused while the other job is dead', () => {
    const kit = diamond();
    assert.deepEqual(endOf(kit, 'bottom'), ['dead', 'dependency', 'DEPENDENCY_FAILED']);
    assert.throws(() => kit.redrive('bottom'), refusal('ILLEGAL_STATE', 'dependency'));
    assert.equal(kit.state('bottom'), 'dead');
  });

  test('waits again after the other job was redriven, and then runs', () => {
    const kit = diamond();
    kit.redrive('left');
    kit.redrive('bottom');
    assert.equal(kit.state('bottom'), 'queued');
    kit.end('right', SUCCESS);
    assert.equal(kit.state('bottom'), 'queued');
    kit.end('left', SUCCESS);
    assert.equal(kit.state('bottom'), 'claimed');
  });

  test('is refused if the other job was deleted', () => {
    const kit = diamond();
    const state = kit.engine.state;
    state.forget(kit.job('left'));
    assert.throws(() => kit.redrive('bottom'), refusal('ILLEGAL_STATE', 'dependency'));
  });
});

test('a job that lives again holds back the jobs that wait for its end and have not started', () => {
  const kit = kitOf(1);
  kit.submit('a');
  kit.submit('c', { after: ['a'], after_policy: 'ended' });
  kit.submit('blocker', { score: 1 });
  kit.end('a', FAILED);
  assert.deepEqual([kit.state('blocker'), kit.state('c')], ['claimed', 'queued']);
  kit.redrive('a');
  kit.end('blocker', SUCCESS);
  assert.deepEqual([kit.state('a'), kit.state('c')], ['claimed', 'queued']);
  kit.end('a', SUCCESS);
  assert.equal(kit.state('c'), 'claimed');
});

describe('the end of a job that many wait for', () => {
  const WAITERS = 3 * SETTLED_PER_STEP;

  function many(slots = 1): EngineKit {
    const kit = kitOf(slots, 10_000);
    kit.submit('a');
    for (let n = 0; n < WAITERS; n++) kit.submit(`w${n}`, { after: ['a'] });
    return kit;
  }
  const states = (kit: EngineKit): string[] =>
    Array.from({ length: WAITERS }, (_, n) => kit.engine.state.jobs.get(`w${n}`)?.job.state ?? 'absent');
  const count = (kit: EngineKit, state: string): number =>
    states(kit).filter((each) => each === state).length;

  test('is passed on in bounded steps', () => {
    const kit = many();
    const { changes } = kit.end('a', FAILED);
    assert.ok(changes.length <= SETTLED_PER_STEP + 10);
    assert.equal(count(kit, 'dead'), SETTLED_PER_STEP);
    kit.pass(0);
    assert.equal(count(kit, 'dead'), WAITERS);
    assert.equal(kit.engine.state.tables.failed_dependency.size, 0);
  });

  test('goes on after a restart, also when the job itself has left memory', () => {
    const kit = many();
    kit.end('a', FAILED);
    const { seq } = kit.job('a');
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq }] });
    assert.equal(kit.engine.state.jobs.has('a'), false);
    const again = restarted(kit, 10_000);
    again.backend('b', { slots: 10 });
    again.pass(0);
    assert.equal(count(again, 'dead'), WAITERS);
    assert.deepEqual(again.claims, []);
    assert.equal(again.engine.state.tables.failed_dependency.size, 0);
  });

  test('is not passed on after a restart to those that wait for the job once it lives again', () => {
    const kit = many(2);
    kit.end('a', FAILED);
    kit.redrive('a');
    const again = restarted(kit, 10_000);
    again.backend('b', { slots: 2 });
    again.pass(0);
    assert.deepEqual(
      [count(again, 'dead'), count(again, 'queued')],
      [SETTLED_PER_STEP, WAITERS - SETTLED_PER_STEP],
    );
    assert.equal(again.engine.state.tables.failed_dependency.size, 0);
  });

  test('leaves no record behind, even if nobody waits any more after a restart', () => {
    const kit = many(2);
    kit.end('a', FAILED);
    for (const entry of [...kit.engine.state.jobs.values()])
      if (entry.job.state === 'queued')
        kit.engine.state.apply(
          { kind: 'job', id: entry.uid, after: { ...entry.job, state: 'cancelled' }, cause: 'cancelled' },
          kit.now,
        );
    const again = restarted(kit, 10_000);
    again.pass(0);
    assert.equal(again.engine.state.tables.failed_dependency.size, 0);
  });

  test('stops when the job is redriven: those that are left wait for it again', () => {
    const kit = many(2);
    kit.end('a', FAILED);
    kit.redrive('a');
    kit.pass(0);
    assert.deepEqual(
      [count(kit, 'dead'), count(kit, 'queued')],
      [SETTLED_PER_STEP, WAITERS - SETTLED_PER_STEP],
    );
    assert.equal(kit.engine.state.tables.failed_dependency.size, 0);
    kit.end('a', SUCCESS);
    kit.pass(0);
    assert.ok(count(kit, 'claimed') > 0);
  });

  test('lets all of them run where it is a success, after a restart in between too', () => {
    const kit = many(WAITERS + 1);
    kit.end('a', SUCCESS);
    assert.equal(count(kit, 'claimed'), SETTLED_PER_STEP);
    const again = restarted(kit, 10_000);
    again.backend('b', { slots: WAITERS + 1 });
    kit.pass(0);
    assert.deepEqual([count(kit, 'claimed'), count(again, 'claimed')], [WAITERS, WAITERS]);
  });
});
