import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  type Fields,
  START,
  SUCCESS,
} from '../../../test/fakes/engine-kit.ts';
import { errorInfo } from '../../model/errors.ts';
import type { BackendInfo } from '../ports/backend.ts';

function claimed(fields: Fields = {}, backend: Partial<BackendInfo> = {}): EngineKit {
  const kit = new EngineKit();
  kit.backend('b', backend);
  kit.submit('a', fields);
  return kit;
}

function running(fields: Fields = {}, backend: Partial<BackendInfo> = {}): EngineKit {
  const kit = claimed(fields, backend);
  kit.accept('a');
  return kit;
}

const used = (kit: EngineKit): number => kit.engine.queue.fleet.usedSlots('b');

describe('an offer', () => {
  test('that is accepted makes the job run', () => {
    const kit = running();
    const { job, open } = kit.job('a');
    assert.deepEqual(
      [job.state, job.startedAt, open?.state, open?.acceptedAt],
      ['running', START, 'accepted', START],
    );
  });

  test('to a busy backend uses up no try and blocks that backend, not the job', () => {
    const kit = claimed();
    kit.backend('other');
    kit.offered('a', { is: 'busy', retryAfterMs: 300 });
    assert.equal(kit.state('a'), 'claimed', 'only the tombstone is certain');
    kit.killed('a', { is: 'tombstoned' });
    const { job, open } = kit.job('a');
    assert.deepEqual([job.state, job.tries, open?.backend, open?.n], ['claimed', 0, 'other', 2]);
    kit.submit('next');
    kit.pass(299);
    assert.equal(kit.state('next'), 'queued');
    kit.pass(1);
    assert.equal(kit.job('next').open?.backend, 'b');
  });

  test('to a backend that is busy without a retryAfterMs blocks it for busyPauseMs', () => {
    const kit = claimed();
    kit.offered('a', { is: 'busy' });
    kit.killed('a', { is: 'tombstoned' });
    kit.pass(999);
    assert.equal(kit.state('a'), 'queued');
    kit.pass(1);
    assert.equal(kit.state('a'), 'claimed');
    assert.equal(kit.job('a').job.tries, 0);
  });

  test('that is refused uses up a try once it is certain that no copy of it will run', () => {
    const kit = claimed();
    kit.offered('a', { is: 'refused', error: errorInfo('POOL_UNAVAILABLE') });
    kit.killed('a', { is: 'tombstoned' });
    const { state, tries, error } = kit.job('a').job;
    assert.deepEqual([state, tries, error?.code], ['queued', 1, 'POOL_UNAVAILABLE']);
    kit.pass(1000);
    kit.offered('a', { is: 'refused', error: errorInfo('WORKER_NOT_FOUND') });
    kit.killed('a', { is: 'tombstoned' });
    assert.deepEqual([kit.state('a'), kit.job('a').job.reason], ['dead', 'failed']);
    assert.equal(used(kit), 0);
  });

  test('without an answer leaves the outcome unknown and the slot in use', () => {
    const kit = claimed();
    kit.offered('a', { is: 'unknown' });
    assert.deepEqual([kit.state('a'), kit.job('a').open?.state, used(kit)], ['stale', 'unknown', 1]);
  });

  test('answered late, after another answer, changes nothing', () => {
    const kit = running();
    for (const is of ['accepted', 'unknown', 'busy'] as const) {
      assert.deepEqual(kit.offered('a', { is }).changes, []);
    }
    assert.deepEqual(kit.offered('a', { is: 'refused', error: errorInfo('INTERNAL') }).changes, []);
    assert.equal(kit.state('a'), 'running');
  });
});

describe('an attempt whose backend was lost', () => {
  function lost(fields: Fields = {}, backend: Partial<BackendInfo> = {}): EngineKit {
    const kit = running(fields, backend);
    kit.lose('a');
    assert.deepEqual([kit.state('a'), used(kit)], ['stale', 1]);
    return kit;
  }

  test('and found running is running again, with its first time of acceptance', () => {
    const kit = lost();
    kit.pass(10);
    kit.found('a', { is: 'running' });
    const { job, open } = kit.job('a');
    assert.deepEqual([job.state, open?.state, open?.acceptedAt, open?.n], ['running', 'accepted', START, 1]);
  });

  test('and found ended gets that outcome: the job has succeeded, is retried, or is dead', () => {
    const ends = { succeeded: SUCCESS, queued: FAILED_FOR_NOW, dead: FAILED } as const;
    for (const [state, outcome] of Object.entries(ends)) {
      const kit = lost();
      kit.found('a', { is: 'ended', outcome });
      assert.deepEqual([kit.state('a'), used(kit)], [state, 0]);
    }
  });

  test('that was never accepted and is absent is retried at once as attempt 2, without using up a try, after the tombstone is set', () => {
    const kit = claimed();
    kit.offered('a', { is: 'unknown' });
    kit.found('a', { is: 'absent' });
    assert.deepEqual([kit.state('a'), kit.job('a').open?.kill?.why], ['stale', 'lost']);
    kit.killed('a', { is: 'tombstoned' });
    const { job, open, past } = kit.job('a');
    assert.deepEqual([job.state, job.tries, open?.n, past?.[0]?.state], ['claimed', 0, 2, 'abandoned']);
  });

  test('that was absent and has started since is left to run: the tombstone came too late', () => {
    const kit = claimed();
    kit.offered('a', { is: 'unknown' });
    kit.found('a', { is: 'absent' });
    kit.killed('a', { is: 'running' });
    const { job, open } = kit.job('a');
    assert.deepEqual(
      [job.state, job.tries, open?.n, open?.state, open?.kill],
      ['running', 0, 1, 'accepted', undefined],
    );
    kit.end('a', SUCCESS);
    assert.equal(kit.state('a'), 'succeeded');
  });

  test('that was absent and has started since is killed if its job was cancelled', () => {
    const kit = claimed();
    kit.offered('a', { is: 'unknown' });
    kit.found('a', { is: 'absent' });
    kit.cancel('a');
    kit.killed('a', { is: 'running' });
    assert.equal(kit.job('a').open?.kill?.why, 'cancel');
  });

  test('that was accepted and is absent now counts as forgotten', () => {
    const kit = lost({ on_unknown: 'hold' });
    kit.found('a', { is: 'absent' });
    kit.killed('a', { is: 'tombstoned' });
    assert.deepEqual([kit.state('a'), used(kit)], ['stale', 1]);
  });

  test("and forgotten is held, retried or failed by the job's on_unknown", () => {
    // What its backend no longer runs uses no slot, also while its outcome is unknown.
    const expected = { hold: ['stale', 0], retry: ['queued', 0], fail: ['dead', 0] } as const;
    for (const [onUnknown, [state, slots]] of Object.entries(expected)) {
      const kit = lost({ on_unknown: onUnknown as 'hold' });
      kit.found('a', { is: 'forgotten', isGone: true });
      assert.deepEqual([kit.state('a'), used(kit)], [state, slots], onUnknown);
      if (state !== 'stale') {
        assert.equal(kit.job('a').job.error?.code, 'UNKNOWN_OUTCOME');
        assert.equal(kit.job('a').job.tries, 1, 'it may have run: a try is spent');
        assert.equal(kit.job('a').past?.at(-1)?.state, 'abandoned');
      }
    }
  });

  test('and forgotten is held on a paid backend and retried on a free one if the job has no on_unknown', () => {
    const paid = lost({}, { paid: true });
    paid.found('a', { is: 'forgotten' });
    assert.equal(paid.state('a'), 'stale');
    const free = lost({}, { paid: false });
    free.found('a', { is: 'forgotten' });
    assert.equal(free.state('a'), 'queued');
  });

  test('and forgotten while its offer may still arrive is killed before it is retried or failed, and held as it is', () => {
    const expected = { hold: 'stale', retry: 'queued', fail: 'dead' } as const;
    for (const [onUnknown, state] of Object.entries(expected)) {
      const kit = claimed({ on_unknown: onUnknown as 'hold' });
      kit.offered('a', { is: 'unknown' });
      kit.found('a', { is: 'forgotten', mayArrive: true });
      const why = onUnknown === 'hold' ? undefined : 'lost';
      assert.deepEqual([kit.state('a'), kit.job('a').open?.kill?.why], ['stale', why], onUnknown);
      if (why) kit.killed('a', { is: 'forgotten' });
      assert.equal(kit.state('a'), state);
    }
  });

  test('and forgotten, with no try left, is dead', () => {
    const kit = lost({ on_unknown: 'retry', max_tries: 1 });
    kit.found('a', { is: 'forgotten' });
    assert.equal(kit.state('a'), 'dead');
  });

  test('and held may still be found', () => {
    const kit = lost({ on_unknown: 'hold' });
    kit.found('a', { is: 'forgotten' });
    kit.found('a', { is: 'ended', outcome: SUCCESS });
    assert.deepEqual([kit.state('a'), used(kit)], ['succeeded', 0]);
  });

  test('and held may still be found running, and uses its slot again', () => {
    const kit = lost({ on_unknown: 'hold' });
    kit.found('a', { is: 'forgotten' });
    assert.equal(used(kit), 1, 'it may still run');
    kit.found('a', { is: 'forgotten', isGone: true });
    assert.equal(used(kit), 0);
    kit.found('a', { is: 'running' });
    assert.deepEqual([kit.state('a'), used(kit)], ['running', 1]);
    kit.end('a', SUCCESS);
    assert.deepEqual([kit.state('a'), used(kit)], ['succeeded', 0]);
  });

  test('may report its end by itself', () => {
    const kit = lost();
    kit.end('a', SUCCESS);
    assert.equal(kit.state('a'), 'succeeded');
  });
});

test('a job whose offer was never sent goes back to the queue, and its try is not used up', () => {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a');
  kit.step({ type: 'reachable', name: 'b', up: false });
  kit.offered('a', { is: 'unsent' });
  assert.deepEqual([kit.state('a'), kit.job('a').job.tries, used(kit)], ['queued', 0, 0]);
  assert.equal(kit.job('a').past?.at(-1)?.state, 'abandoned');
});

test('after a restart the attempt of an earlier epoch is inspected, and confirmed if it still runs', () => {
  const kit = running();
  kit.step({ type: 'open', owner: 'x' });
  assert.equal(kit.job('a').open?.epoch, 1);
  kit.found('a', { is: 'running' });
  assert.deepEqual([kit.state('a'), kit.job('a').open?.epoch], ['running', 2]);
  assert.deepEqual(kit.found('a', { is: 'running' }).changes, [], 'once is enough');
});

test('reports about closed or unknown attempts change nothing', () => {
  const kit = running();
  const token = kit.token('a');
  kit.end('a', SUCCESS);
  for (const stranger of [token, 'a:7', 'nobody:1', '']) {
    const { changes } = kit.step({ type: 'lost', token: stranger });
    const more = kit.step({ type: 'found', token: stranger, finding: { is: 'forgotten' } }).changes;
    assert.deepEqual([...changes, ...more], []);
  }
});

test('the report of a kill that was not ordered changes nothing', () => {
  const kit = running();
  assert.deepEqual(kit.killed('a', { is: 'tombstoned' }).changes, []);
});
