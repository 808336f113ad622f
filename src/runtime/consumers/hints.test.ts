import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SUCCESS, submission } from '../../../test/fakes/engine-kit.ts';
import type { EngineEvent } from '../../core/engine/areas.ts';
import type { Step } from '../../core/engine/engine.ts';
import type { Doorbell, PoolHints } from '../../core/ports/doorbell.ts';
import { realEnv } from '../../kit/env/real.ts';
import { Hints } from './hints.ts';

const NEVER = new Promise<never>(() => undefined);
const LONG_MS = 60_000;

/** An engine with consumers that listen, a doorbell that notes what it is told, and a store that commits when told to. */
function setUp(...names: readonly string[]) {
  const kit = new EngineKit();
  for (const name of ['ann', ...names]) {
    const declared = {
      ...{ pool: 'p', name, token: name, slots: 2, types: ['t'], models: undefined, labels: {} },
      ...{ paid: false, listens: 'redis' as const, ttlMs: 15_000 },
    };
    kit.step({ type: 'consumer', declared });
  }
  const sweeps: (readonly PoolHints[])[] = [];
  const doorbell: Doorbell = {
    placeOf: () => ({ key: 'k', group: 'g' }),
    publish: () => undefined,
    settled: () => undefined,
    sweep: (pools) => sweeps.push(pools),
  };
  const commit = Promise.withResolvers<void>();
  const { timers } = realEnv();
  const asked: EngineEvent[] = [];
  const failed = Promise.withResolvers<Error>();
  const loop = {
    durable: () => commit.promise,
    failed: failed.promise,
    ask: (event: EngineEvent) => {
      asked.push(event);
      return NEVER;
    },
  };
  const hints = new Hints({ engine: kit.engine, timers, loop, doorbell });
  const swept = async () => {
    hints.sweep();
    return async (): Promise<PoolHints | undefined> => {
      commit.resolve();
      await commit.promise;
      return sweeps[0]?.[0];
    };
  };
  return { kit, hints, swept, asked, fail: failed.resolve };
}

/** Lets this consumer wait with a claim. */
function wait(hints: Hints, consumer: string, atMost = 2, since = 0) {
  const claim = hints.wait({ pool: 'p', consumer, claim: 1, atMost, waitMs: LONG_MS, since });
  return { ...claim, [Symbol.dispose]: claim.stop };
}

/** The tokens that each waiting consumer claims after this step. */
function claimsOf(hints: Hints, { changes }: Step): (readonly [string, readonly string[]])[] {
  return hints.awaited(changes).map(({ event }) => {
    assert.ok(event.type === 'claim');
    return [event.consumer, event.tokens ?? []];
  });
}

const submitted = (kit: EngineKit, ...ids: readonly string[]): Step =>
  kit.step({ type: 'submit', submissions: ids.map((id) => submission(id)) });

test('an entry is kept while the end of its attempt is not durable', async () => {
  const { kit, swept } = setUp();
  kit.submit('a');
  kit.step({ type: 'claim', consumer: 'ann', claim: 1, atMost: 1 });
  const commit = await swept();
  kit.step({ type: 'results', consumer: 'ann', results: [{ token: 'a:1', outcome: SUCCESS }] });
  const told = await commit();
  assert.deepEqual([...(told?.held ?? [])], ['a:1']);
});

test('an attempt whose intent is not durable is neither published by a sweep, nor is its entry removed', async () => {
  const { kit, swept } = setUp();
  kit.submit('a');
  const commit = await swept();
  kit.submit('b');
  const told = await commit();
  assert.deepEqual(
    told?.waiting.map(({ token }) => token),
    ['a:1'],
  );
  assert.deepEqual([...(told?.held ?? [])], ['b:1']);
});

test('jobs that come together are shared out among the claims that wait, none beyond what it takes', () => {
  const { kit, hints } = setUp('bob');
  using _first = wait(hints, 'ann');
  using _second = wait(hints, 'bob', 1);
  assert.deepEqual(claimsOf(hints, submitted(kit, 'a', 'b', 'c', 'd')), [
    ['ann', ['a:1', 'c:1']],
    ['bob', ['b:1']],
  ]);
});

test('a claim waits for jobs once: those that come later are for others', () => {
  const { kit, hints } = setUp('bob');
  using _first = wait(hints, 'ann');
  assert.deepEqual(claimsOf(hints, submitted(kit, 'a')), [['ann', ['a:1']]]);
  using _second = wait(hints, 'bob', 2, kit.engine.state.seq);
  assert.deepEqual(claimsOf(hints, submitted(kit, 'b')), [['bob', ['b:1']]]);
});

test('what a claim was given and has not taken is given to another one', async () => {
  const { kit, hints, asked } = setUp('bob');
  using _first = wait(hints, 'ann');
  claimsOf(hints, submitted(kit, 'a'));
  using _second = wait(hints, 'bob', 2, kit.engine.state.seq);
  hints.publish('a:1');
  await nextTurn();
  assert.partialDeepStrictEqual(asked, [{ type: 'claim', consumer: 'bob', tokens: ['a:1'] }]);
  using _third = wait(hints, 'ann', 2, kit.engine.state.seq);
  hints.publish('a:1');
  await nextTurn();
  assert.partialDeepStrictEqual(asked.slice(1), [{ type: 'claim', consumer: 'ann', tokens: ['a:1'] }]);
});

test('a job that was recorded just before a claim waits for one is claimed at once', async () => {
  const { kit, hints, asked } = setUp();
  submitted(kit, 'before');
  const { seq } = kit.engine.state;
  submitted(kit, 'a');
  using _claim = wait(hints, 'ann', 2, seq);
  await nextTurn();
  assert.partialDeepStrictEqual(asked, [{ type: 'claim', consumer: 'ann', tokens: ['a:1'] }]);
  assert.equal(asked.length, 1);
});

test('a consumer that is silent or drains is given nothing through a claim that it has left behind', () => {
  const { kit, hints } = setUp('bob', 'eve');
  using _first = wait(hints, 'ann');
  using _second = wait(hints, 'bob');
  kit.step({ type: 'drain-consumer', id: 'p/bob', by: 'test' });
  kit.pass(10_000);
  kit.step({ type: 'held', consumer: 'eve', held: [], claimed: 0 });
  kit.pass(10_000);
  using _third = wait(hints, 'eve');
  assert.deepEqual(claimsOf(hints, submitted(kit, 'a')), [['eve', ['a:1']]]);
});

test('claims that wait when the loop fails, or afterwards, are refused', async () => {
  const { hints, fail } = setUp();
  const before = assert.rejects(wait(hints, 'ann').claimed, /it failed/);
  fail(new Error('it failed'));
  await before;
  await assert.rejects(wait(hints, 'ann').claimed, /it failed/);
});

test('a claim whose caller is gone takes nothing', async () => {
  const { kit, hints } = setUp();
  const claim = wait(hints, 'ann');
  claim.stop();
  assert.equal(await claim.claimed, undefined);
  assert.deepEqual(claimsOf(hints, submitted(kit, 'a')), []);
});

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
