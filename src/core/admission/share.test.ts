/** What tenants have in common, and the share of it that one of them can take: each test fills it with one tenant. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, FAILED, refusal, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import { OrchdError } from '../../model/errors.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import { isWithinShare } from './share.ts';

const FULL = refusal('QUEUE_FULL', 'tenant_share');
const LOUD = { tenant: 'loud' };
const QUIET = { tenant: 'quiet' };

test('a tenant takes at most half of what the others leave, the first one always, the default tenant all', () => {
  /** The number that a tenant can take while others hold so many. */
  const most = (tenant: string, others: number, capacity: number): number => {
    let own = 0;
    while (own + others < capacity && isWithinShare(tenant, { own, others, capacity })) own++;
    return own;
  };
  assert.deepEqual([most('a', 0, 100), most('b', 50, 100), most('c', 75, 100)], [50, 25, 12]);
  assert.deepEqual([most('a', 0, 1), most('a', 0, 3), most('a', 99, 100)], [1, 1, 1]);
  assert.deepEqual([most(DEFAULT_TENANT, 0, 100), most(DEFAULT_TENANT, 50, 100)], [100, 50]);
});

describe('the queue', () => {
  test('has room for others when a tenant has filled its share, in jobs and in bytes', () => {
    for (const settings of [{ queueCapacity: 20 }, { queueBytes: 40 }]) {
      const kit = new EngineKit(settings);
      for (let n = 0; n < 10; n++) kit.submit(`loud-${n}`, LOUD);
      assert.throws(() => kit.submit('more', LOUD), FULL);
      for (let n = 0; n < 5; n++) kit.submit(`quiet-${n}`, QUIET);
      assert.throws(() => kit.submit('more', QUIET), FULL);
      for (let n = 0; n < 5; n++) kit.submit(`default-${n}`);
      assert.throws(() => kit.submit('more'), refusal('QUEUE_FULL'));
    }
  });

  test('gives a tenant room again when its jobs have started or ended, also after a restart', () => {
    const kit = new EngineKit({ queueCapacity: 4 });
    kit.submit('a', LOUD);
    kit.submit('b', LOUD);
    assert.throws(() => kit.submit('c', LOUD), FULL);
    const reopened = new EngineKit({ queueCapacity: 4 });
    for (const { change, at } of kit.log) reopened.engine.state.apply(change, at);
    assert.throws(() => reopened.submit('c', LOUD), FULL);
    reopened.step({ type: 'cancel', uid: 'loud~a', by: 'me' });
    reopened.submit('c', LOUD);
    reopened.backend('b');
    reopened.submit('d', LOUD);
  });

  test('with drop-lru a tenant never displaces work that may be of another; the default tenant does', () => {
    const kit = new EngineKit({ queueCapacity: 4, queuePolicy: 'drop-lru' });
    for (const id of ['a', 'b', 'c', 'd']) kit.submit(id);
    assert.throws(() => kit.submit('theirs', { ...LOUD, priority: 'interactive' }), refusal('QUEUE_FULL'));
    assert.equal(kit.state('a'), 'queued');
    kit.submit('e');
    assert.equal(kit.state('a'), 'dead');
  });
});

test('leases are left for others when a tenant has filled its share', () => {
  const kit = new EngineKit();
  let made = 0;
  const lease = (tenant: string): unknown =>
    kit.step({
      type: 'lease',
      request: { token: `${made++}`, tenant, agent: 'a', minMemoryMb: 0, ttlMs: 1e6 },
    }).reply;
  let held = 0;
  while (!(lease('loud') instanceof OrchdError)) held++;
  assert.equal(held, 5000);
  assert.ok(!(lease('quiet') instanceof OrchdError));
  const refused = lease('loud');
  assert.deepEqual(
    refused instanceof OrchdError && [refused.code, refused.details.reason, refused.retriable],
    ['ADMISSION_REJECT', 'tenant_share', true],
  );
  for (const token of ['0', '1']) kit.step({ type: 'release', lease: token, tenant: 'loud' });
  assert.ok(!(lease('loud') instanceof OrchdError), 'leases that were given back leave room');
});

test('the failure cache forgets the failures of the tenant that has the most', () => {
  const kit = new EngineKit({ failureCacheSize: 4 });
  kit.backend('b');
  const fail = (tenant: string, id: string): void => {
    const uid = `${tenant}~${id}`;
    kit.submit(id, { tenant, key: id, max_tries: 1 });
    kit.accept(uid);
    kit.end(uid, FAILED);
  };
  fail('quiet', 'k');
  for (let n = 0; n < 10; n++) fail('loud', `k${n}`);
  assert.deepEqual([...kit.engine.state.failures.keys()], ['quiet~k', 'loud~k7', 'loud~k8', 'loud~k9']);
});

describe('the budget of a session', () => {
  const usage = usedTokens(30, 30, 1);

  /** A session that has used 60 tokens. */
  function used(limits: { scope: string; tokenBudget: number }[], tokenBudget?: number): EngineKit {
    const kit = new EngineKit({ limits });
    kit.backend('b');
    kit.step({ type: 'budget', tenant: DEFAULT_TENANT, id: 's', tokenBudget });
    kit.submit('first', { session_id: 's', tokens: 60 });
    kit.accept('first');
    kit.end('first', { ...SUCCESS, usage } as never);
    return kit;
  }
  const forget = (kit: EngineKit, keepsBudget: boolean): unknown =>
    kit.step({ type: 'forget-session', tenant: DEFAULT_TENANT, id: 's', by: 'me', keepsBudget }).reply;
  const next = (kit: EngineKit): string | undefined => {
    const reply = kit.trySubmit('next', { session_id: 's', tokens: 60 });
    return reply instanceof OrchdError ? reply.details.reason : undefined;
  };

  test('survives its deletion by a caller that may not set it, with what was used of it', () => {
    const own = used([], 100);
    const limited = used([{ scope: 'session:default/s', tokenBudget: 100 }]);
    for (const kit of [own, limited]) {
      assert.equal(next(kit), 'token_budget');
      for (let n = 0; n < 3; n++) assert.ok(!(forget(kit, true) instanceof OrchdError));
      assert.equal(next(kit), 'token_budget');
      const { turns, threads, tokensUsed } = kit.engine.state.sessionOf(DEFAULT_TENANT, 's')!;
      assert.deepEqual([turns, threads, tokensUsed], [0, undefined, 60], 'the rest of it is gone');
    }
  });

  test('is gone when a caller that may set it deletes the session, and a session without one is deleted', () => {
    const kit = used([], 100);
    forget(kit, false);
    assert.equal(kit.engine.state.sessionOf(DEFAULT_TENANT, 's'), undefined);
    assert.equal(next(kit), undefined);
    const without = used([]);
    forget(without, true);
    assert.equal(without.engine.state.sessionOf(DEFAULT_TENANT, 's'), undefined);
  });
});
