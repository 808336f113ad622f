import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  type Fields,
  refusal,
  STOPPED,
  SUCCESS,
  submission,
} from '../../../test/fakes/engine-kit.ts';
import { errorInfo } from '../../model/errors.ts';
import type { ResolveAs } from './operator-commands.ts';

function running(fields: Fields = {}): EngineKit {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a', fields);
  kit.accept('a');
  return kit;
}

const used = (kit: EngineKit): number => kit.engine.queue.fleet.usedSlots('b');
const resolve = (kit: EngineKit, how: ResolveAs): void => {
  kit.order({ type: 'resolve', uid: 'a', by: 'op', how });
};

describe('cancel', () => {
  test('of a job that waits or is parked cancels it at once', () => {
    const parked: Record<string, Fields> = {
      ready: {},
      'for its time': { not_before: 10_000_000 },
      'for its session': { session_id: 's' },
    };
    for (const [what, fields] of Object.entries(parked)) {
      const kit = new EngineKit();
      if (fields.session_id) kit.submit('first', fields);
      kit.submit('a', fields);
      assert.equal(kit.cancel('a').status, 'cancelled', what);
      assert.equal(kit.engine.state.counts.queued, fields.session_id ? 1 : 0);
    }
  });

  test('of a job between two tries cancels it at once', () => {
    const kit = running();
    kit.end('a', FAILED_FOR_NOW);
    assert.equal(kit.cancel('a').status, 'cancelled');
    kit.pass(1_000_000);
    assert.deepEqual(kit.claims, ['a']);
  });

  test('of a claimed, running or unknown attempt orders a kill; the job is cancelled when it is confirmed', () => {
    const phases: Record<string, (kit: EngineKit) => void> = {
      claimed: () => undefined,
      running: (kit) => void kit.accept('a'),
      stale: (kit) => void kit.offered('a', { is: 'unknown' }),
    };
    const confirmations = [
      { is: 'tombstoned' },
      { is: 'forgotten' },
      { is: 'ended', outcome: STOPPED },
      { is: 'ended', outcome: FAILED_FOR_NOW },
    ] as const;
    for (const [phase, enter] of Object.entries(phases)) {
      for (const confirmation of confirmations) {
        const kit = new EngineKit();
        kit.backend('b');
        kit.submit('a', { on_unknown: 'hold' });
        enter(kit);
        assert.equal(kit.cancel('a').status, phase);
        assert.deepEqual([kit.job('a').job.cancel?.by, kit.job('a').open?.kill?.why], ['test', 'cancel']);
        kit.killed('a', confirmation);
        assert.deepEqual([kit.state('a'), used(kit)], ['cancelled', 0], `${phase}, ${confirmation.is}`);
      }
    }
  });

  test('ends the job after the cancel deadline at the latest, while the slot stays in use until the backend confirms', () => {
    for (const phase of ['claimed', 'running', 'stale']) {
      const kit = new EngineKit();
      kit.backend('b');
      kit.submit('a');
      kit.submit('next');
      if (phase === 'running') kit.accept('a');
      if (phase === 'stale') kit.lose('a');
      kit.cancel('a');
      kit.pass(4999);
      assert.equal(kit.state('a'), phase);
      kit.pass(1);
      assert.deepEqual([kit.state('a'), used(kit), kit.state('next')], ['cancelled', 1, 'queued']);
      kit.killed('a', { is: 'ended', outcome: STOPPED });
      assert.deepEqual([kit.state('a'), kit.state('next')], ['cancelled', 'claimed']);
    }
  });

  test('replaces another kill order of the attempt', () => {
    const kit = running({ timeout_ms: 100 });
    kit.pass(100);
    kit.cancel('a');
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    assert.equal(kit.state('a'), 'cancelled');
  });

  test('of a held unknown ends the job, also when the executor answers again that it has forgotten', () => {
    const kit = running({ on_unknown: 'hold' });
    kit.lose('a');
    kit.found('a', { is: 'forgotten' });
    kit.cancel('a');
    kit.found('a', { is: 'forgotten' });
    kit.pass(5000);
    assert.equal(kit.state('a'), 'cancelled');
  });

  test('while a busy answer is being settled keeps the job from going back to the queue', () => {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('a');
    kit.offered('a', { is: 'busy' });
    kit.cancel('a');
    kit.killed('a', { is: 'tombstoned' });
    assert.equal(kit.state('a'), 'cancelled');
  });

  test('repeated, or of an ended job, changes nothing', () => {
    const kit = running();
    kit.cancel('a');
    assert.deepEqual(kit.step({ type: 'cancel', uid: 'a', by: 'again' }).changes, []);
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    assert.deepEqual(kit.step({ type: 'cancel', uid: 'a', by: 'again' }).changes, []);
    assert.throws(() => kit.cancel('nobody'), refusal('NOT_FOUND'));
  });

  test('cancels all descendants of the job', () => {
    const kit = new EngineKit();
    kit.submit('a');
    kit.submit('b', { parent_id: 'a' });
    kit.submit('c', { parent_id: 'b' });
    kit.submit('d', { parent_id: 'a' });
    kit.submit('other');
    kit.cancel('a');
    assert.deepEqual(
      ['a', 'b', 'c', 'd', 'other'].map((id) => kit.state(id)),
      ['cancelled', 'cancelled', 'cancelled', 'cancelled', 'queued'],
    );
  });

  test('cancels all descendants of the job, also those of a child that has ended', () => {
    const kit = new EngineKit();
    kit.backend('b', { types: ['quick'] });
    kit.submit('a');
    kit.submit('child', { parent_id: 'a', type: 'quick' });
    kit.submit('grandchild', { parent_id: 'child' });
    kit.accept('child');
    kit.end('child', SUCCESS);
    kit.cancel('a');
    assert.equal(kit.state('grandchild'), 'cancelled');
  });

  test('of an ended job cancels its live descendants, also when it has left memory', () => {
    for (const gone of [false, true]) {
      const kit = running();
      kit.submit('child', { parent_id: 'a' });
      kit.end('a', SUCCESS);
      if (gone) kit.step({ type: 'indexed', uids: [{ uid: 'a', seq: kit.job('a').seq }] });
      kit.step({ type: 'cancel', uid: 'a', by: 'test' });
      assert.deepEqual(kit.job('child').job.cancel?.by, 'test', gone ? 'gone' : 'in memory');
    }
  });

  test('cancels ten thousand descendants', () => {
    const kit = new EngineKit({ queueCapacity: 20_000 });
    kit.submit('j0');
    for (let n = 1; n < 10_000; n++) kit.submit(`j${n}`, { parent_id: `j${Math.floor(n / 10)}` });
    kit.cancel('j0');
    assert.equal(kit.engine.state.counts.cancelled, 10_000);
  });

  test('that was not confirmed in time keeps the next job of the session waiting until the attempt closes', () => {
    const kit = new EngineKit();
    kit.backend('b', { slots: 2 });
    kit.submit('a', { session_id: 's' });
    kit.accept('a');
    kit.submit('next', { session_id: 's' });
    kit.cancel('a');
    kit.pass(5000);
    assert.deepEqual([kit.state('a'), kit.state('next')], ['cancelled', 'queued']);
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    assert.equal(kit.state('next'), 'claimed');
  });
});

describe('redrive', () => {
  function dead(fields: Fields = {}): EngineKit {
    const kit = running({ max_tries: 1, ...fields });
    kit.end('a', FAILED_FOR_NOW);
    assert.equal(kit.state('a'), 'dead');
    return kit;
  }

  test('queues a dead job again: its tries start anew, its attempt numbers go on', () => {
    const kit = dead();
    assert.equal(kit.redrive('a').status, 'queued');
    const { job, open } = kit.job('a');
    assert.deepEqual([job.state, job.tries, job.attempt, open?.n], ['claimed', 0, 2, 2]);
    kit.accept('a');
    kit.end('a', SUCCESS);
    assert.deepEqual([kit.state('a'), kit.job('a').past?.map(({ n }) => n)], ['succeeded', [1, 2]]);
  });

  test('of a job that has left memory restores it with its attempts', () => {
    const kit = dead({ session_id: 's', score: 7 });
    const { ask, job, seq } = kit.job('a');
    kit.step({ type: 'indexed', uids: [{ uid: 'a', seq }] });
    kit.step({ type: 'reachable', name: 'b', up: false });
    kit.order({ type: 'redrive', uid: 'a', by: 'op', known: { ask, job } });
    assert.deepEqual(kit.job('a').ask, ask);
    assert.deepEqual([kit.state('a'), kit.job('a').job.attempt], ['queued', 1]);
    kit.step({ type: 'reachable', name: 'b', up: true });
    assert.equal(kit.token('a'), 'a:2');
  });

  test('is refused while another live job has the key', () => {
    const kit = dead({ key: 'k' });
    kit.submit('holder', { key: 'k' });
    assert.throws(() => kit.redrive('a'), refusal('KEY_CONFLICT'));
    kit.accept('holder');
    kit.end('holder', SUCCESS);
    assert.equal(kit.redrive('a').status, 'queued');
  });

  test('makes the job the holder of its key again', () => {
    const kit = dead({ key: 'k' });
    kit.redrive('a');
    assert.deepEqual([kit.submit('x', { key: 'k' }).id], ['a']);
  });

  test('of anything but a dead job is refused', () => {
    const kit = running();
    assert.throws(() => kit.redrive('a'), refusal('ILLEGAL_STATE'));
    kit.end('a', SUCCESS);
    assert.throws(() => kit.redrive('a'), refusal('ILLEGAL_STATE'));
    assert.throws(() => kit.redrive('nobody'), refusal('NOT_FOUND'));
  });

  /** A run whose call `r.1` is dead, and that waits for this one too if it is told to. */
  function runWithDeadCall(alsoFor?: string): EngineKit {
    const kit = new EngineKit();
    kit.backend('b', { slots: 9, types: ['agent', 'inference'] });
    kit.submit('r', { type: 'agent' });
    kit.accept('r');
    const children = ['r.1', ...(alsoFor === undefined ? [] : [alsoFor])].map((id) =>
      submission(id, { type: 'inference', max_tries: 1 }),
    );
    kit.end('r', { ok: 'waits', state: '{}', needs: 'all', children });
    kit.accept('r.1');
    kit.end('r.1', FAILED);
    assert.equal(kit.state('r.1'), 'dead');
    return kit;
  }

  test('of a call of the model is refused where its run does not wait for it any more', () => {
    const kit = runWithDeadCall();
    assert.equal(kit.state('r'), 'claimed', 'the run goes on');
    assert.throws(() => kit.redrive('r.1'), refusal('ILLEGAL_STATE'));
    kit.accept('r');
    kit.end('r', SUCCESS);
    assert.throws(() => kit.redrive('r.1'), refusal('ILLEGAL_STATE'));
    const { ask, job, seq } = kit.job('r');
    kit.step({ type: 'indexed', uids: [{ uid: 'r', seq }] });
    const order = { type: 'redrive', uid: 'r.1', by: 'op', known: undefined, parent: { ask, job } } as const;
    assert.throws(() => kit.order(order), refusal('ILLEGAL_STATE'));
  });

  test('of a call of the model is taken while its run waits for it, and the run waits for its new end', () => {
    const kit = runWithDeadCall('r.2');
    assert.equal(kit.redrive('r.1').status, 'queued');
    kit.accept('r.2');
    kit.end('r.2', SUCCESS);
    assert.equal(kit.state('r'), 'waiting');
    kit.accept('r.1');
    kit.end('r.1', SUCCESS);
    assert.equal(kit.state('r'), 'claimed');
  });

  test('of another job below a run, or of one below another job, is taken', () => {
    const kit = new EngineKit();
    kit.backend('b', { slots: 9 });
    kit.submit('r', { type: 'agent' });
    kit.submit('f', { type: 'other' });
    for (const [id, parent_id] of [
      ['mine', 'r'],
      ['f.1', 'f'],
    ] as const) {
      kit.submit(id, { type: 'inference', parent_id, max_tries: 1 });
      kit.accept(id);
      kit.end(id, FAILED);
      assert.equal(kit.redrive(id).status, 'queued');
    }
  });

  test('is refused until the last attempt has freed its slot', () => {
    const kit = running({ deadline_ms: 100 });
    kit.pass(100 + 5000);
    assert.deepEqual([kit.state('a'), used(kit)], ['dead', 1]);
    assert.throws(() => kit.redrive('a'), refusal('ILLEGAL_STATE'));
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    kit.redrive('a');
  });

  test('gives the job its full deadline again', () => {
    const kit = new EngineKit();
    kit.submit('a', { deadline_ms: 100 });
    kit.pass(100);
    assert.equal(kit.state('a'), 'dead');
    kit.pass(1000);
    kit.redrive('a');
    kit.pass(99);
    assert.equal(kit.state('a'), 'queued');
    kit.pass(1);
    assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'expired']);
  });

  test('ignores the failure cache: an operator has decided', () => {
    const kit = running({ key: 'k' });
    kit.end('a', FAILED);
    assert.equal(kit.redrive('a').status, 'queued');
  });
});

describe('resolve', () => {
  function held(fields: Fields = {}): EngineKit {
    const kit = running({ on_unknown: 'hold', key: 'k', ...fields });
    kit.lose('a');
    kit.found('a', { is: 'forgotten' });
    assert.equal(kit.state('a'), 'stale');
    return kit;
  }

  test('as retry runs the job again without using up a try', () => {
    const kit = held();
    resolve(kit, { as: 'retry' });
    const { job, open, past } = kit.job('a');
    assert.deepEqual([job.state, job.tries, open?.n, past?.[0]?.state], ['claimed', 0, 2, 'abandoned']);
  });

  test('as failed ends the job, without an entry in the failure cache', () => {
    const kit = held();
    resolve(kit, { as: 'failed', error: errorInfo('UNKNOWN_OUTCOME', 'seen on the bill') });
    const { state, reason, error } = kit.job('a').job;
    assert.deepEqual(
      [state, reason, error?.code, error?.message],
      ['dead', 'failed', 'UNKNOWN_OUTCOME', 'seen on the bill'],
    );
    assert.deepEqual([kit.engine.state.failures.size, used(kit)], [0, 0]);
  });

  test('as succeeded ends the job with the given result', () => {
    const kit = held();
    resolve(kit, { as: 'succeeded', result: '42' });
    assert.deepEqual([kit.state('a'), kit.job('a').job.result, used(kit)], ['succeeded', '42', 0]);
  });

  test('is refused unless the outcome is unknown', () => {
    const kit = running();
    assert.throws(() => resolve(kit, { as: 'retry' }), refusal('ILLEGAL_STATE'));
    kit.end('a', SUCCESS);
    assert.throws(() => resolve(kit, { as: 'failed' }), refusal('ILLEGAL_STATE'));
  });

  test('of an ended job only closes its open attempt', () => {
    const kit = held({ session_id: 's' });
    kit.submit('next', { session_id: 's', type: 'other' });
    kit.cancel('a');
    kit.pass(5000);
    assert.deepEqual([kit.state('a'), kit.job('a').open?.state], ['cancelled', 'unknown']);
    resolve(kit, { as: 'retry' });
    assert.deepEqual(
      [kit.state('a'), kit.job('a').open, kit.state('next')],
      ['cancelled', undefined, 'claimed'],
    );
  });

  test('as succeeded stores no result of a job that is being cancelled with its session', () => {
    for (const [fields, state] of [
      [{}, 'succeeded'],
      [{ session_id: 's' }, 'cancelled'],
    ] as const) {
      const kit = held(fields);
      kit.cancel('a');
      resolve(kit, { as: 'succeeded', result: '42' });
      const { job } = kit.job('a');
      assert.deepEqual([job.state, job.result], [state, state === 'succeeded' ? '42' : undefined]);
    }
  });

  test('does not retry a job whose cancel was requested', () => {
    const kit = held();
    kit.cancel('a');
    try {
      resolve(kit, { as: 'retry' });
    } catch {
      // A refusal is acceptable too.
    }
    kit.pass(10_000);
    assert.deepEqual(kit.claims, ['a']);
    assert.equal(kit.state('a'), 'cancelled');
  });
});
