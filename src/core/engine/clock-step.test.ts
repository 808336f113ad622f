import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, FAILED, FAILED_FOR_NOW, type Fields, START } from '../../../test/fakes/engine-kit.ts';

const DAY = 24 * 3_600_000;

/** An engine whose clock was a day ahead, with a job that was submitted then. */
function wrongByADay(fields: Fields = {}, more: (kit: EngineKit) => void = () => undefined): EngineKit {
  const kit = new EngineKit();
  kit.now = START + DAY;
  kit.backend('b');
  kit.submit('a', fields);
  more(kit);
  return kit;
}

/** The wall clock is stepped, and brain time with it. */
function stepBy(kit: EngineKit, byMs: number): void {
  kit.now += byMs;
  kit.step({ type: 'clock-step', byMs });
}

/** A clock that was wrong is set right, or a right one is set wrong: nobody can tell. */
for (const [direction, byMs] of Object.entries({ back: -DAY, forward: DAY }))
  describe(`when brain time is set ${direction}, the rest of every wait stays as it was`, () => {
    test('of a retry', () => {
      const kit = wrongByADay({}, (each) => {
        each.accept('a');
        each.end('a', FAILED_FOR_NOW);
      });
      stepBy(kit, byMs);
      kit.pass(999);
      assert.equal(kit.state('a'), 'queued');
      kit.pass(1);
      assert.equal(kit.state('a'), 'claimed');
    });

    test('of the deadline of a running job', () => {
      const kit = wrongByADay({ deadline_ms: 5000 }, (each) => {
        each.accept('a');
        each.pass(1000);
      });
      stepBy(kit, byMs);
      kit.pass(3999);
      assert.equal(kit.job('a').open?.kill, undefined);
      kit.pass(1);
      assert.equal(kit.job('a').open?.kill?.why, 'deadline');
    });

    test('of the deadline of a waiting job', () => {
      const kit = wrongByADay({}, (each) => each.submit('b', { deadline_ms: 5000 }));
      kit.pass(1000);
      stepBy(kit, byMs);
      kit.pass(3999);
      assert.equal(kit.state('b'), 'queued');
      kit.pass(1);
      assert.deepEqual([kit.state('b'), kit.job('b').job.reason], ['dead', 'expired']);
    });

    test('of a timeout', () => {
      const kit = wrongByADay({ timeout_ms: 3000 }, (each) => {
        each.accept('a');
        each.pass(1000);
      });
      stepBy(kit, byMs);
      kit.pass(1999);
      assert.equal(kit.job('a').open?.kill, undefined);
      kit.pass(1);
      assert.equal(kit.job('a').open?.kill?.why, 'timeout');
    });

    test('of a cancel that no backend confirms', () => {
      const kit = wrongByADay({}, (each) => {
        each.accept('a');
        each.cancel('a');
        each.pass(1000);
      });
      stepBy(kit, byMs);
      kit.pass(3999);
      assert.equal(kit.state('a'), 'running');
      kit.pass(1);
      assert.equal(kit.state('a'), 'cancelled');
    });

    test('of a busy backend', () => {
      const kit = wrongByADay({}, (each) => {
        each.offered('a', { is: 'busy', retryAfterMs: 250 });
        each.killed('a', { is: 'tombstoned' });
      });
      stepBy(kit, byMs);
      assert.equal(kit.engine.nextWake(), START + DAY + byMs + 250);
    });

    test('of an entry in the failure cache', () => {
      const kit = wrongByADay({ key: 'k' }, (each) => {
        each.accept('a');
        each.end('a', FAILED);
      });
      const [, { until = 0 } = {}] = [...kit.engine.state.failures][0] ?? [];
      stepBy(kit, byMs);
      assert.deepEqual(
        [...kit.engine.state.failures.values()].map((each) => each.until),
        [until + byMs],
      );
    });
  });

test('an instant that a caller has named is one of the wall clock, and stays', () => {
  const kit = wrongByADay({ not_before: START + DAY + 1000 });
  stepBy(kit, -DAY);
  kit.pass(DAY);
  assert.equal(kit.state('a'), 'queued');
  kit.pass(1000);
  assert.equal(kit.state('a'), 'claimed');
});

test('an instant that a caller has named is reached by a step forward', () => {
  const kit = wrongByADay({ not_before: START + DAY + 3_600_000 });
  stepBy(kit, DAY);
  assert.equal(kit.state('a'), 'claimed');
});
