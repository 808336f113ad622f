import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../../test/crash/steady-env.ts';
import { EngineKit, FAILED_FOR_NOW, SUCCESS, TURNED_AWAY } from '../../../test/fakes/engine-kit.ts';
import { explain } from '../scheduling/explain.ts';

const NO_BREAKER = { failures: 0, pauseMs: 1, maxPauseMs: 1 };
/** No pause between the tries, so that only the share of retries holds them up. */
const AT_ONCE = { baseDelayMs: 0, maxDelayMs: 0, jitter: 0 };

function kitOf(fields: object = { hasProvider: true }): EngineKit {
  const kit = new EngineKit({ breaker: NO_BREAKER, backoff: AT_ONCE, queueCapacity: 100_000 });
  kit.backend('seat', { slots: 1000, ...fields });
  return kit;
}

const failOnce = (kit: EngineKit, id: string): void => {
  kit.accept(id);
  kit.end(id, FAILED_FOR_NOW);
};

const failAll = (kit: EngineKit, prefix: string, count: number, fields: object = {}): string[] => {
  const ids = Array.from({ length: count }, (_, i) => `${prefix}${i}`);
  for (const id of ids) kit.submit(id, fields);
  for (const id of ids) failOnce(kit, id);
  return ids;
};

const started = (kit: EngineKit, ids: readonly string[]): string[] => ids.filter((id) => kit.job(id).open);

test('the first ten retries go at once; the others wait, as quota, and go one by one in order', () => {
  const kit = kitOf();
  const ids = failAll(kit, 'j', 14);
  assert.deepEqual(started(kit, ids), ids.slice(0, 10));
  assert.equal(kit.job('j10').parked, 'quota');
  const waits = explain(kit.engine.state, kit.job('j10'));
  assert.deepEqual([waits?.code, /other retries go first/.test(waits?.text ?? '')], ['quota', true]);
  kit.pass(9_999);
  assert.equal(started(kit, ids).length, 10);
  kit.pass(1);
  assert.deepEqual(started(kit, ids), ids.slice(0, 11));
  kit.pass(30_000);
  assert.deepEqual(started(kit, ids), ids, 'nobody waits for ever');
});

test('first starts bring retries: one for every five at a share of 0.2', () => {
  const kit = kitOf();
  const ids = failAll(kit, 'j', 50);
  assert.equal(started(kit, ids).length, 10);
  for (let i = 0; i < 5; i++) kit.submit(`good${i}`);
  assert.equal(started(kit, ids).length, 11);
});

test('another caller has retries of its own; another agent of the same caller has not', () => {
  const kit = kitOf();
  failAll(kit, 'j', 11);
  const renamed = failAll(kit, 'renamed', 1, { agent: 'a-new-name' });
  assert.deepEqual(started(kit, renamed), []);
  const other = failAll(kit, 'other', 1, { submittedBy: 'somebody-else' });
  assert.deepEqual(started(kit, other), other);
});

test('a try that was turned away counts neither as a start nor as a retry', () => {
  const kit = kitOf();
  for (let i = 0; i < 100; i++) kit.submit(`away${i}`);
  for (let i = 0; i < 100; i++) {
    kit.accept(`away${i}`);
    kit.end(`away${i}`, { ...TURNED_AWAY, retryAfterMs: 1 } as typeof TURNED_AWAY);
    kit.cancel(`away${i}`);
  }
  kit.pass(10);
  const ids = failAll(kit, 'j', 11);
  assert.equal(started(kit, ids).length, 10, 'a hundred starts would have brought twenty retries');
});

test('retries where no provider stands behind the backend are not bounded', () => {
  const kit = kitOf({ hasProvider: undefined });
  const ids = failAll(kit, 'j', 100);
  assert.deepEqual(started(kit, ids), ids);
});

test('a retry that waits can be cancelled, and the next one goes in its place', () => {
  const kit = kitOf();
  const ids = failAll(kit, 'j', 13);
  kit.cancel('j10');
  kit.pass(10_000);
  assert.equal(kit.state('j10'), 'cancelled');
  assert.ok(kit.job(ids[11] as string).open);
  assert.equal(kit.job(ids[12] as string).open, undefined);
});

test('while a provider fails 30 % of the calls for an hour, there are at most (1 + share) times as many calls as jobs', () => {
  const { next: random } = seededRandom(17);
  const kit = kitOf();
  let calls = 0;
  let jobs = 0;
  const end = kit.now + 3_600_000;
  const settle = (): void => {
    for (const entry of [...kit.engine.state.open.values()]) {
      calls++;
      kit.accept(entry.uid);
      kit.end(entry.uid, random() < 0.3 ? FAILED_FOR_NOW : SUCCESS);
    }
  };
  while (kit.now < end) {
    for (let i = 0; i < 5; i++) kit.submit(`job-${++jobs}`);
    settle();
    kit.pass(2000);
  }
  assert.ok(calls <= 1.2 * jobs, `${calls} calls for ${jobs} jobs`);
  assert.ok(calls >= 1.15 * jobs, `retries are held up, not given up: ${calls} calls for ${jobs} jobs`);
});
