import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import { OrchdError } from '../../model/errors.ts';
import type { LimitSpec } from '../../model/limit-records.ts';

function limited(...limits: LimitSpec[]): EngineKit {
  const kit = new EngineKit({ limits });
  kit.backend('b', { slots: 100 });
  return kit;
}

let made = 0;
/** 0 if the job was admitted, else how long to wait; undefined if waiting does not help. */
function wait(kit: EngineKit, fields: Fields = {}): number | undefined {
  const reply = kit.trySubmit(`q${made++}`, fields);
  if (!(reply instanceof OrchdError)) return 0;
  assert.ok(reply.code === 'RATE_LIMITED' || reply.details.reason === 'token_budget', reply.code);
  return reply.details.retryAfterMs;
}

describe('what callers may use', () => {
  test('[ORCH-1132] is limited by token: requests and tokens per second, with the time to retry', () => {
    const kit = limited({ scope: 'token:*', requestsPerSec: 2, tokensPerSec: 1000 });
    const as = (submittedBy: string, tokens = 0): Fields => ({ submittedBy, tokens });
    assert.deepEqual([wait(kit, as('a')), wait(kit, as('a'))], [0, 0]);
    assert.equal(wait(kit, as('a')), 500);
    assert.equal(wait(kit, as('b', 1000)), 0, 'another token has its own');
    assert.equal(wait(kit, as('b', 500)), 500);
    const refused = kit.trySubmit('x', as('a'));
    assert.ok(refused instanceof OrchdError);
    assert.deepEqual([refused.status, refused.retriable], [429, true]);
    assert.match(refused.details.policyLabel ?? '', /token:a/);
    kit.pass(500);
    assert.equal(wait(kit, as('a')), 0);
  });

  test('is limited by model, whichever of its names a job uses', () => {
    const kit = new PoolKit({}, { limits: [{ scope: 'model:m', requestsPerSec: 1, burstRequests: 1 }] });
    kit.pool('p', [24]);
    const ref = kit.model('m', { aliases: ['also-m'] });
    assert.equal(wait(kit, { type: 'inference', model: 'also-m' }), 0);
    for (const model of ['m', 'also-m', ref]) assert.equal(wait(kit, { type: 'inference', model }), 1000);
  });

  test('is limited by all scopes at once, and a refusal takes nothing from any', () => {
    const kit = limited(
      { scope: 'global', requestsPerSec: 1, burstRequests: 3 },
      { scope: 'agent:default/one', concurrency: 1 },
    );
    assert.equal(wait(kit, { agent: 'one' }), 0);
    assert.equal(wait(kit, { agent: 'one' }), 1000, 'it has one under way, and nothing was measured yet');
    assert.deepEqual([wait(kit, { agent: 'two' }), wait(kit, { agent: 'two' })], [0, 0]);
    assert.equal(wait(kit, { agent: 'two' }), 1000);
  });

  test('is reserved, then settled with the real use; a job that never ran returns its reservation', () => {
    const kit = limited({ scope: 'global', tokensPerSec: 1, burstTokens: 1000 });
    kit.submit('a', { tokens: 900 });
    assert.notEqual(wait(kit, { tokens: 500 }), 0);
    kit.accept('a');
    kit.end('a', { ok: true, result: '1', usage: usedTokens(50, 50, 1) });
    kit.submit('b', { tokens: 900 });
    kit.submit('waits', { tokens: 0, not_before: kit.now + 1e6 });
    kit.accept('b');
    kit.end('b', SUCCESS);
    assert.notEqual(wait(kit, { tokens: 100 }), 0, 'it did not say, so the estimate stands');
    const other = limited({ scope: 'global', tokensPerSec: 1, burstTokens: 1000 });
    other.submit('parked', { tokens: 1000, not_before: other.now + 1e6 });
    other.cancel('parked');
    assert.equal(wait(other, { tokens: 1000 }), 0);
  });

  test('can be changed at run time, and invalid limits change nothing', () => {
    const kit = limited({ scope: 'global', requestsPerSec: 1 });
    assert.equal(wait(kit), 0);
    assert.equal(wait(kit), 1000);
    kit.step({ type: 'limits', limits: [{ scope: 'global', requestsPerSec: 1000 }], by: 'ops' });
    kit.pass(1);
    assert.equal(wait(kit), 0);
    const { reply } = kit.step({ type: 'limits', limits: [{ scope: 'nonsense' }], by: 'ops' });
    assert.equal(reply instanceof OrchdError && reply.code, 'INVALID_PARAMS');
    assert.equal(kit.engine.state.tables.limits.get('limits')?.limits[0]?.requestsPerSec, 1000);
    kit.step({ type: 'limits', limits: [], by: 'ops' });
    for (let n = 0; n < 500; n++) assert.equal(wait(kit), 0);
  });

  test('has budgets that survive a restart, open reservations included', () => {
    const budget: LimitSpec = { scope: 'agent:*', tokenBudget: 100 };
    const kit = limited(budget);
    kit.submit('ended', { tokens: 50 });
    kit.accept('ended');
    kit.end('ended', { ok: true, result: '1', usage: usedTokens(10, 20, 1) });
    kit.submit('open', { tokens: 40 });
    const reopened = limited(budget);
    for (const { change, at } of kit.log) reopened.engine.state.apply(change, at);
    reopened.step({ type: 'open', owner: 'x' });
    assert.equal(wait(reopened, { tokens: 31 }), undefined, '30 are spent and 40 are held');
    assert.equal(wait(reopened, { tokens: 30 }), 0);
  });

  test('a limit for the scope of a session bounds its budget, also one of its own; the session alone counts its tokens', () => {
    const kit = limited({ scope: 'session:*', tokenBudget: 100 });
    const own = { session_id: 's', parallel: true } as const;
    kit.submit('ended', { ...own, tokens: 50 });
    kit.accept('ended');
    kit.end('ended', { ok: true, result: '1', usage: usedTokens(10, 20, 1) });
    assert.equal(kit.engine.state.tables.spent.size, 0);
    assert.equal(wait(kit, { ...own, tokens: 71 }), undefined, '30 of 100 are used');
    kit.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1000 });
    assert.equal(wait(kit, { ...own, tokens: 71 }), undefined, 'the limit holds');
    kit.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 80 });
    assert.equal(wait(kit, { ...own, tokens: 51 }), undefined, 'so does the smaller one of its own');
    assert.equal(wait(kit, { ...own, tokens: 50 }), 0);
  });

  test('includes jobs from before the first limit was set', () => {
    const kit = limited();
    kit.submit('before');
    kit.step({ type: 'limits', limits: [{ scope: 'global', concurrency: 2 }], by: 'ops' });
    assert.deepEqual(kit.step({ type: 'reserve-live' }).reply, { isPartial: false });
    assert.equal(wait(kit), 0);
    assert.notEqual(wait(kit), 0);
  });

  test('includes many such jobs in steps, each of them once, and those of a limit that is set in between', () => {
    const kit = new EngineKit({ queueCapacity: 5000 });
    for (let at = 0; at < 2500; at++) kit.submit(`j${at}`, { tokens: 1 });
    const set = (): unknown =>
      kit.step({ type: 'limits', limits: [{ scope: 'global', tokenBudget: 2510 }], by: 'ops' });
    const isPartial = (): unknown =>
      (kit.step({ type: 'reserve-live' }).reply as { isPartial: boolean }).isPartial;
    set();
    assert.deepEqual([isPartial(), isPartial()], [true, true]);
    set();
    assert.deepEqual([isPartial(), isPartial(), isPartial()], [true, true, false]);
    assert.equal(wait(kit, { tokens: 11 }), undefined, '2500 are held');
    assert.equal(wait(kit, { tokens: 10 }), 0);
  });

  test('is not charged for a job that a full queue refuses', () => {
    const kit = new EngineKit({
      queueCapacity: 1,
      limits: [{ scope: 'global', tokensPerSec: 1, burstTokens: 100 }],
    });
    kit.submit('waits', { tokens: 0 });
    for (let n = 0; n < 3; n++) {
      const reply = kit.trySubmit(`no${n}`, { tokens: 100 });
      assert.equal(reply instanceof OrchdError && reply.code, 'QUEUE_FULL');
    }
    kit.cancel('waits');
    assert.equal(wait(kit, { tokens: 100 }), 0);
  });
});
