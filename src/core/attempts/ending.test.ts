import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  type Fields,
  START,
  STOPPED,
  SUCCESS,
  TURNED_AWAY,
} from '../../../test/fakes/engine-kit.ts';
import { errorInfo } from '../../model/errors.ts';
import { countsOf } from '../../model/usage.ts';
import type { Outcome, TurnedAway } from '../ports/backend.ts';
import type { EngineSettings } from '../settings.ts';

function running(
  fields: Fields = {},
  settings: Partial<EngineSettings> = {},
  random?: () => number,
): EngineKit {
  const kit = new EngineKit(settings, random);
  kit.backend('b');
  kit.submit('a', fields);
  kit.accept('a');
  return kit;
}

test('a success ends the job with its result and frees the slot for the next in the same step', () => {
  const kit = running();
  kit.submit('next');
  kit.pass(50);
  kit.end('a', SUCCESS);
  const { job, open, past } = kit.job('a');
  assert.deepEqual(
    [job.state, job.result, job.endedAt, open],
    ['succeeded', '"done"', START + 50, undefined],
  );
  assert.deepEqual([past?.[0]?.state, past?.[0]?.outcome], ['ended', 'succeeded']);
  assert.equal(kit.state('next'), 'claimed');
});

test('an outcome that arrives before the acceptance ends the job as succeeded', () => {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('a');
  kit.end('a', SUCCESS);
  assert.equal(kit.state('a'), 'succeeded');
  assert.ok(kit.job('a').job.startedAt !== undefined);
});

describe('an acceptance that only the end tells', () => {
  const ended = (acceptedAt: number, isRecorded = false): EngineKit => {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('a');
    kit.now += 10;
    if (isRecorded) kit.accept('a');
    kit.now += 40;
    kit.step({ type: 'outcome', token: kit.token('a'), outcome: SUCCESS, acceptedAt });
    return kit;
  };
  const times = (kit: EngineKit) => {
    const { job, past } = kit.job('a');
    const [attempt] = past ?? [];
    return [job.startedAt, attempt?.acceptedAt, attempt?.endedAt].map((at) => (at ?? 0) - START);
  };

  test('is that of the attempt, and the start of the job', () => {
    assert.deepEqual(times(ended(START + 20)), [20, 20, 50]);
  });

  test('counts only where none was recorded, and lies between the intent and the end', () => {
    assert.deepEqual(times(ended(START + 20, true)), [10, 10, 50]);
    assert.deepEqual(times(ended(START + 70)), [50, 50, 50]);
    assert.deepEqual(times(ended(START - 5)), [0, 0, 50]);
  });

  test('is the start of the attempt and of the job also where it is told late', () => {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('a');
    kit.now += 100;
    kit.step({ type: 'offered', token: kit.token('a'), answer: { is: 'accepted' }, acceptedAt: START + 10 });
    kit.now += 50;
    kit.end('a', SUCCESS);
    assert.deepEqual(times(kit), [10, 10, 150]);
  });

  test('is none of an attempt that the provider turned away', () => {
    const kit = new EngineKit();
    kit.backend('b');
    kit.submit('a');
    kit.step({ type: 'outcome', token: kit.token('a'), outcome: TURNED_AWAY, acceptedAt: kit.now });
    assert.equal(kit.job('a').past?.[0]?.acceptedAt, undefined);
  });
});

describe('a job that the provider turned away', () => {
  const turnedAway = (retryAfterMs?: number): Outcome =>
    retryAfterMs === undefined ? TURNED_AWAY : { ...(TURNED_AWAY as TurnedAway), retryAfterMs };

  test('uses up no try, and its backend gets no job until the time that the provider named', () => {
    const kit = running({ max_tries: 1 });
    kit.submit('next');
    kit.end('a', turnedAway(5000));
    const { job, past } = kit.job('a');
    assert.deepEqual([job.state, job.tries, past?.[0]?.outcome], ['queued', 0, 'turned_away']);
    assert.equal(past?.[0]?.error?.code, 'RATE_LIMITED');
    kit.pass(4999);
    assert.deepEqual([kit.state('a'), kit.state('next')], ['queued', 'queued']);
    kit.pass(1);
    assert.deepEqual([kit.state('a'), kit.state('next')], ['claimed', 'queued']);
    kit.accept('a');
    kit.end('a', SUCCESS);
    assert.equal(kit.state('a'), 'succeeded');
  });

  test('goes to another backend at once', () => {
    const kit = running();
    kit.backend('other');
    kit.end('a', turnedAway(60_000));
    assert.deepEqual([kit.state('a'), kit.job('a').open?.backend], ['claimed', 'other']);
  });

  test('waits for growing pauses where the provider names no time, and the first success ends them', () => {
    const kit = running();
    const pauses: number[] = [];
    const untilClaimed = (): number => {
      const from = kit.now;
      while (kit.state('a') === 'queued') kit.pass(100);
      kit.accept('a');
      return kit.now - from;
    };
    for (let n = 0; n < 3; n++) {
      kit.end('a', turnedAway());
      pauses.push(untilClaimed());
    }
    assert.deepEqual(pauses, [1000, 2000, 4000]);
    kit.end('a', SUCCESS);
    kit.submit('b');
    kit.accept('b');
    kit.end('b', turnedAway());
    const from = kit.now;
    while (kit.state('b') === 'queued') kit.pass(100);
    assert.equal(kit.now - from, 1000);
  });

  test('counts once with the others that were under way', () => {
    const kit = new EngineKit();
    kit.backend('b', { slots: 4 });
    for (const id of ['a', 'b', 'c', 'd']) {
      kit.submit(id);
      kit.accept(id);
    }
    for (const id of ['a', 'b', 'c', 'd']) kit.end(id, turnedAway());
    kit.pass(1000);
    assert.equal(kit.state('a'), 'claimed');
  });

  test('does not come back when its backend declares itself again, but when the backend says that it is free', () => {
    const kit = running();
    kit.end('a', turnedAway(60_000));
    kit.backend('b', { labels: { changed: 'yes' } });
    assert.equal(kit.state('a'), 'queued');
    kit.step({ type: 'backend-free', name: 'b' });
    assert.equal(kit.state('a'), 'claimed');
  });

  test('is cancelled, or expires, instead of waiting again', () => {
    const kit = running({ deadline_ms: 50 });
    kit.cancel('a');
    kit.end('a', turnedAway());
    assert.equal(kit.state('a'), 'cancelled');
    const other = running({ deadline_ms: 50 });
    other.pass(50);
    other.end('a', turnedAway());
    assert.deepEqual([other.state('a'), other.job('a').job.reason], ['dead', 'expired']);
  });

  test('a wait of a year is bounded by a day', () => {
    const kit = running();
    kit.end('a', turnedAway(365 * 24 * 3_600_000));
    kit.pass(24 * 3_600_000);
    assert.equal(kit.state('a'), 'claimed');
  });
});

test('the tokens of failed and cancelled tries are recorded, and count together', () => {
  const kit = running({ max_tries: 2 });
  const usage = countsOf({ prompt_tokens: 30, completion_tokens: 20, cache_read_tokens: 10 });
  kit.end('a', { ...(FAILED_FOR_NOW as object), usage } as Outcome);
  kit.pass(60_000);
  kit.accept('a');
  kit.end('a', { ok: 'cancelled', usage });
  const { past, usedTokens: used } = kit.job('a');
  assert.deepEqual(
    past?.map((attempt) => attempt.usage),
    [usage, usage],
  );
  assert.equal(used, 100);
});

describe('a try that failed', () => {
  test('is retried after a growing delay until the tries are used up: then the job is dead', () => {
    const kit = running({ max_tries: 3 });
    kit.end('a', FAILED_FOR_NOW);
    assert.deepEqual([kit.state('a'), kit.job('a').job.notBefore], ['queued', START + 1000]);
    kit.pass(999);
    assert.equal(kit.state('a'), 'queued');
    kit.pass(1);
    kit.accept('a');
    kit.end('a', FAILED_FOR_NOW);
    assert.equal(kit.job('a').job.notBefore, kit.now + 2000);
    kit.pass(2000);
    kit.accept('a');
    kit.end('a', FAILED_FOR_NOW);
    const { job, past } = kit.job('a');
    assert.deepEqual(
      [job.state, job.reason, job.error?.code, job.tries],
      ['dead', 'failed', 'WORKER_TIMEOUT', 3],
    );
    assert.deepEqual(
      past?.map(({ n, outcome }) => [n, outcome]),
      [1, 2, 3].map((n) => [n, 'failed']),
    );
  });

  test('with an error that is not retriable is not retried', () => {
    const kit = running({ max_tries: 3 });
    kit.end('a', FAILED);
    assert.deepEqual([kit.state('a'), kit.job('a').job.tries], ['dead', 1]);
  });

  test("waits for the backend's retryAfterMs if that is longer", () => {
    const kit = running();
    kit.end('a', { ...FAILED_FOR_NOW, retryAfterMs: 7000 } as typeof FAILED_FOR_NOW);
    assert.equal(kit.job('a').job.notBefore, START + 7000);
    const quick = running();
    quick.end('a', { ...FAILED_FOR_NOW, retryAfterMs: 10 } as typeof FAILED_FOR_NOW);
    assert.equal(quick.job('a').job.notBefore, START + 1000);
  });

  test('waits within the bounds of the jitter', () => {
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(random, fc.double({ min: 0, max: 0.9, noNaN: true }), (chance, jitter) => {
        const kit = running({}, { backoff: { baseDelayMs: 1000, maxDelayMs: 5000, jitter } }, () => chance);
        kit.end('a', FAILED_FOR_NOW);
        const wait = kit.job('a').job.notBefore! - START;
        assert.ok(wait <= 1000 && wait >= Math.floor(1000 * (1 - jitter)), `${wait} at ${jitter}`);
      }),
    );
  });

  test('lets another job have the slot while it waits', () => {
    const kit = running();
    kit.submit('other');
    kit.end('a', FAILED_FOR_NOW);
    assert.equal(kit.state('other'), 'claimed');
  });
});

describe('a backend that stopped a job', () => {
  test('because of a cancel has cancelled it', () => {
    const kit = running();
    kit.cancel('a');
    kit.end('a', STOPPED);
    assert.deepEqual([kit.state('a'), kit.job('a').job.error?.code], ['cancelled', 'CANCELLED']);
  });

  test('because of its deadline makes it dead as expired', () => {
    const kit = running({ deadline_ms: 100 });
    kit.pass(100);
    kit.end('a', STOPPED);
    const { state, reason, error } = kit.job('a').job;
    assert.deepEqual([state, reason, error?.code], ['dead', 'expired', 'DEADLINE_EXCEEDED']);
  });

  test('because of its timeout uses up a try', () => {
    const kit = running({ timeout_ms: 100 });
    kit.pass(100);
    kit.end('a', STOPPED);
    const { state, tries, error } = kit.job('a').job;
    assert.deepEqual([state, tries, error?.code], ['queued', 1, 'WORKER_TIMEOUT']);
  });

  test('without an order makes the try fail', () => {
    const kit = running();
    kit.end('a', STOPPED);
    assert.deepEqual([kit.state('a'), kit.job('a').job.error?.code], ['dead', 'WORKER_UNAVAILABLE']);
    assert.equal(kit.engine.state.failures.size, 0);
  });
});

test('a job that finishes although its kill was ordered has succeeded', () => {
  for (const order of ['cancel', 'deadline', 'timeout'] as const) {
    const kit = running(order === 'cancel' ? {} : { [`${order}_ms`]: 100 });
    if (order === 'cancel') kit.cancel('a');
    else kit.pass(100);
    kit.end('a', SUCCESS);
    assert.equal(kit.state('a'), 'succeeded', order);
  }
});

test('a failed try of a job whose cancel was requested is not retried', () => {
  const kit = running();
  kit.cancel('a');
  kit.end('a', FAILED_FOR_NOW);
  assert.equal(kit.state('a'), 'cancelled');
});

test('what a job of a session says once its cancel was requested is not kept', () => {
  const error = { ...errorInfo('EXECUTION_FAILED'), sealed: 'what was said' };
  for (const outcome of [
    { ok: false, error },
    { ...SUCCESS, result: 'what was said' },
    { ...(TURNED_AWAY as TurnedAway), error },
  ] as Outcome[]) {
    const kit = running({ session_id: 's' });
    kit.cancel('a');
    kit.end('a', outcome);
    const { job, past } = kit.job('a');
    assert.equal(job.state, 'cancelled');
    assert.doesNotMatch(JSON.stringify([job, past]), /what was said/);
  }
});

test('an outcome after the end of the job only frees the slot', () => {
  for (const outcome of [SUCCESS, FAILED, FAILED_FOR_NOW, STOPPED]) {
    const kit = running({ key: 'k' });
    kit.cancel('a');
    kit.pass(5000);
    const { job } = kit.job('a');
    assert.equal(job.state, 'cancelled');
    assert.equal(kit.engine.queue.fleet.usedSlots('b'), 1, 'the slot is taken until the backend confirms');
    kit.end('a', outcome);
    assert.deepEqual(kit.job('a').job, job);
    assert.equal(kit.engine.queue.fleet.usedSlots('b'), 0);
    assert.equal(kit.engine.state.failures.size, 0);
  }
});

test('a repeated outcome changes nothing', () => {
  const kit = running();
  const token = kit.token('a');
  kit.end('a', FAILED_FOR_NOW);
  const { changes } = kit.step({ type: 'outcome', token, outcome: SUCCESS });
  assert.deepEqual(changes, []);
  assert.equal(kit.state('a'), 'queued');
});
