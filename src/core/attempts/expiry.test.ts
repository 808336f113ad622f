import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields, START, STOPPED, submission } from '../../../test/fakes/engine-kit.ts';
import { errorInfo } from '../../model/errors.ts';

function claimed(fields: Fields = {}): EngineKit {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a', fields);
  return kit;
}

function running(fields: Fields = {}): EngineKit {
  const kit = claimed(fields);
  kit.accept('a');
  return kit;
}

const killOf = (kit: EngineKit): string | undefined => kit.job('a').open?.kill?.why;

describe('a job with a not_before', () => {
  test('starts at that instant', () => {
    const kit = claimed({ not_before: START + 500 });
    assert.deepEqual([kit.state('a'), kit.job('a').parked], ['queued', 'not_before']);
    kit.pass(499);
    assert.equal(kit.state('a'), 'queued');
    kit.pass(1);
    assert.equal(kit.state('a'), 'claimed');
  });

  test('never starts if its deadline is earlier', () => {
    const kit = claimed({ not_before: START + 500, deadline_ms: 400 });
    kit.pass(400);
    assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'expired']);
  });
});

test('timers that are due together are handled in ticks of bounded size, and no job starts past its deadline', () => {
  const kit = new EngineKit({ queueCapacity: 10_000 });
  const submissions = Array.from({ length: 4500 }, (_, at) => submission(`j${at}`, { deadline_ms: 500 }));
  kit.step({ type: 'submit', submissions });
  const { jobs } = kit.engine.state;
  const dead = (): number => [...jobs.values()].filter(({ job }) => job.state === 'dead').length;
  kit.now += 500;
  for (const left of [2500, 500]) {
    kit.step({ type: 'tick' });
    assert.equal(4500 - dead(), left);
    assert.ok(kit.engine.nextWake() <= kit.now, 'the next tick comes at once');
    kit.backend('b', { slots: 100 });
  }
  kit.submit('late');
  assert.equal(kit.state('late'), 'queued');
  kit.step({ type: 'tick' });
  assert.deepEqual([dead(), kit.state('late')], [4500, 'claimed']);
  assert.ok([...jobs.values()].every(({ ask, job }) => ask.id === 'late' || job.attempt === 0));
});

describe('a deadline', () => {
  test('ends a waiting job, whatever it waits for', () => {
    const waits: Record<string, Fields> = {
      ready: {},
      'for its time': { not_before: START + 1000 },
      'for its session': { session_id: 's' },
    };
    for (const [what, fields] of Object.entries(waits)) {
      const kit = new EngineKit();
      if (fields.session_id) kit.submit('first', fields);
      kit.submit('a', { ...fields, deadline_ms: 100 });
      kit.pass(99);
      assert.equal(kit.state('a'), 'queued', what);
      kit.pass(1);
      const { state, reason, error, endedAt } = kit.job('a').job;
      assert.deepEqual([state, reason, error?.code], ['dead', 'expired', 'DEADLINE_EXCEEDED'], what);
      assert.equal(endedAt, START + 100);
    }
  });

  test('ends a job between two tries', () => {
    const kit = running({ deadline_ms: 500 });
    kit.end('a', { ok: false, error: errorInfo('WORKER_TIMEOUT') });
    kit.pass(500);
    assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'expired']);
  });

  test('orders the kill of a started attempt; the job expires when the backend confirms', () => {
    for (const phase of ['claimed', 'running', 'stale']) {
      const kit = claimed({ deadline_ms: 100, on_unknown: 'hold' });
      if (phase !== 'claimed') kit.accept('a');
      if (phase === 'stale') kit.lose('a');
      kit.pass(100);
      assert.deepEqual([kit.state('a'), killOf(kit)], [phase, 'deadline']);
      kit.killed('a', phase === 'claimed' ? { is: 'tombstoned' } : { is: 'ended', outcome: STOPPED });
      assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'expired'], phase);
    }
  });

  test('ends the job even if the backend confirms nothing; the slot stays in use', () => {
    for (const phase of ['claimed', 'running', 'stale']) {
      const kit = claimed({ deadline_ms: 100 });
      if (phase !== 'claimed') kit.accept('a');
      if (phase === 'stale') kit.lose('a');
      kit.pass(100 + 5000);
      assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'expired'], phase);
      assert.equal(kit.engine.queue.fleet.usedSlots('b'), 1);
    }
  });

  test('ends the job also while another kill order is unanswered', () => {
    const orders: Record<string, (kit: EngineKit) => void> = {
      'a timeout': (kit) => {
        kit.accept('a');
        kit.pass(50);
      },
      'a busy answer': (kit) => void kit.offered('a', { is: 'busy' }),
      'a refusal': (kit) => void kit.offered('a', { is: 'refused', error: errorInfo('POOL_UNAVAILABLE') }),
      'a tombstone for what was lost': (kit) => {
        kit.offered('a', { is: 'unknown' });
        kit.found('a', { is: 'absent' });
      },
    };
    for (const [what, give] of Object.entries(orders)) {
      const kit = claimed({ deadline_ms: 1000, timeout_ms: 50 });
      give(kit);
      kit.pass(1000 + 5000 + 5000);
      assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'expired'], what);
    }
  });
});

describe('a timeout', () => {
  test('ends a try that runs too long, and counts from its start', () => {
    const kit = claimed({ timeout_ms: 100 });
    kit.pass(1000);
    assert.equal(killOf(kit), undefined, 'it has not started yet');
    kit.accept('a');
    kit.pass(99);
    assert.equal(killOf(kit), undefined);
    kit.pass(1);
    assert.equal(killOf(kit), 'timeout');
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    assert.deepEqual([kit.state('a'), kit.job('a').job.tries], ['queued', 1]);
  });

  test('that no backend confirms ends the job after the cancel deadline; the slot stays in use', () => {
    const kit = running({ timeout_ms: 100, max_tries: 5 });
    kit.pass(100 + 4999);
    assert.equal(kit.state('a'), 'running');
    kit.pass(1);
    const { job, open } = kit.job('a');
    assert.deepEqual([job.state, job.error?.code, open?.state], ['dead', 'WORKER_TIMEOUT', 'unknown']);
    assert.equal(kit.engine.queue.fleet.usedSlots('b'), 1);
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    assert.deepEqual([kit.state('a'), kit.engine.queue.fleet.usedSlots('b')], ['dead', 0]);
  });

  test('applies to every try separately', () => {
    const kit = running({ timeout_ms: 100 });
    kit.pass(100);
    kit.killed('a', { is: 'ended', outcome: STOPPED });
    kit.pass(1000);
    kit.accept('a');
    kit.pass(99);
    assert.equal(killOf(kit), undefined);
    kit.pass(1);
    assert.equal(killOf(kit), 'timeout');
  });
});

test('a blocked backend is offered jobs again when its block ends, without another event', () => {
  const kit = claimed();
  kit.offered('a', { is: 'busy', retryAfterMs: 250 });
  kit.killed('a', { is: 'tombstoned' });
  assert.equal(kit.engine.nextWake(), START + 250);
});

test('nextWake is never if nothing waits for an instant', () => {
  const kit = running();
  assert.equal(kit.engine.nextWake(), Number.POSITIVE_INFINITY);
  assert.deepEqual(kit.step({ type: 'tick' }).changes, []);
});
