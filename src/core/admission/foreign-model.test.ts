/** Models of upstreams: they have the names of another server, and are not in the catalog. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Fields, TURNED_AWAY } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';
import type { BackendInfo, TurnedAway } from '../ports/backend.ts';
import { explain } from '../scheduling/explain.ts';

const upstream = (kit: PoolKit, name: string, fields: Partial<BackendInfo>): void =>
  kit.backend(name, { kind: 'upstream', types: ['inference'], hasForeignModels: true, slots: 4, ...fields });

const refusal = (kit: PoolKit, fields: Fields): OrchdError => {
  const reply = kit.trySubmit(`j${kit.log.length}`, { type: 'inference', ...fields });
  assert.ok(reply instanceof OrchdError);
  return reply;
};

test('a job without a model gets the only model of all upstreams, and none where there are several', () => {
  const kit = new PoolKit();
  upstream(kit, 'a', { models: ['m'] });
  upstream(kit, 'b', { models: ['m'] });
  kit.submit('one', { type: 'inference', unrunnable: 'refuse' });
  assert.deepEqual([kit.job('one').ask.spec.model, kit.state('one')], ['m', 'claimed']);
  upstream(kit, 'b', { models: ['m', 'other'] });
  const { details, message } = refusal(kit, { unrunnable: 'refuse' });
  assert.equal(details.field, 'model');
  assert.match(message, /without a model: name one with "model", or --model\. Known here: m, other\.$/);
  upstream(kit, 'b', { models: Array.from({ length: 29 }, (_, n) => `x${n}`) });
  assert.match(refusal(kit, { unrunnable: 'refuse' }).message, /Known here: m, x0, .* and 20 more\.$/);
});

test('a job without a model is for the backends that take one, if there are any', () => {
  const kit = new PoolKit();
  upstream(kit, 'a', { models: ['m'] });
  kit.backend('demo', { types: ['inference'], models: ['demo'] });
  kit.submit('one', { type: 'inference' });
  assert.equal(kit.job('one').job.backend, 'demo');
});

test('a context that is known is checked, and one that an upstream does not know is not', () => {
  const kit = new PoolKit();
  upstream(kit, 'a', { models: ['m', 'toString'], contextLengths: new Map([['m', 5000]]) });
  assert.equal(refusal(kit, { model: 'm', contextTokens: 5001 }).details.reason, 'context_length');
  kit.submit('unknown', { type: 'inference', model: 'toString', contextTokens: 1_000_000 });
  assert.equal(kit.state('unknown'), 'claimed');
  // The job fits one of two upstreams only.
  upstream(kit, 'b', { models: ['m'], contextLengths: new Map([['m', 20_000]]) });
  kit.submit('long', { type: 'inference', model: 'm', contextTokens: 9000 });
  assert.equal(kit.job('long').job.backend, 'b');
  upstream(kit, 'b', { models: ['m'] });
  kit.submit('longer', { type: 'inference', model: 'm', contextTokens: 90_000 });
  assert.equal(kit.state('longer'), 'claimed');
});

test('a model of the catalog is not served by an upstream that has one of the same name', () => {
  const kit = new PoolKit();
  kit.model('m');
  upstream(kit, 'a', { models: ['m'] });
  kit.submit('one', { type: 'inference', model: 'm' });
  assert.equal(kit.state('one'), 'queued');
});

test('an upstream with an outage gets no jobs; they wait with the reason, and run when it is over', () => {
  const kit = new PoolKit();
  upstream(kit, 'a', { models: ['m'], outage: 'it does not answer' });
  kit.submit('one', { type: 'inference', model: 'm' });
  assert.deepEqual(explain(kit.engine.state, kit.job('one')), {
    code: 'backend_down',
    text: 'not reachable: "a" (it does not answer)',
  });
  upstream(kit, 'a', { models: ['m'] });
  assert.equal(kit.state('one'), 'claimed');
});

test('an interactive job is refused once all upstreams with its model have been away for 30 seconds', () => {
  const kit = new PoolKit();
  const away = { models: ['m'], outage: 'it does not answer' };
  upstream(kit, 'a', away);
  upstream(kit, 'b', away);
  const asked = { type: 'inference', model: 'm', priority: 'interactive' } as const;
  kit.submit('soon', asked);
  kit.pass(29_999);
  upstream(kit, 'a', away);
  kit.submit('later', asked);
  kit.pass(1);
  const { code, message } = refusal(kit, asked);
  assert.deepEqual(
    [code, message],
    ['UPSTREAM_UNAVAILABLE', '"a" has the model and cannot be used: it does not answer'],
  );
  kit.submit('patient', { ...asked, unrunnable: 'wait' });
  kit.submit('batch', { ...asked, priority: 'batch' });
  upstream(kit, 'b', { models: ['m'] });
  kit.submit('back', asked);
  upstream(kit, 'b', away);
  kit.submit('again', asked);
});

test('an interactive job is refused while all backends with its model rest for more than 30 seconds', () => {
  const kit = new PoolKit();
  upstream(kit, 'a', { models: ['m'] });
  const asked = { type: 'inference', model: 'm', priority: 'interactive' } as const;
  const turnAway = (id: string, retryAfterMs: number): void => {
    kit.submit(id, asked);
    kit.accept(id);
    kit.end(id, { ...(TURNED_AWAY as TurnedAway), retryAfterMs });
  };
  turnAway('first', 30_000);
  kit.submit('soon', asked);
  kit.pass(30_000);
  kit.accept('first');
  kit.end('first', { ...(TURNED_AWAY as TurnedAway), retryAfterMs: 40_000 });
  const { code, message, details } = refusal(kit, asked);
  const until = new Date(kit.now + 40_000).toISOString();
  assert.deepEqual(
    [code, message, details.retryAfterMs],
    ['UPSTREAM_UNAVAILABLE', `"a" has the model and cannot be used: until ${until} (rate_limited)`, 40_000],
  );
  kit.submit('batch', { ...asked, priority: 'batch' });
  upstream(kit, 'b', { models: ['m'] });
  kit.submit('elsewhere', asked);
});

test('jobs for a model that an upstream no longer has are told so, whether they wait or are new', () => {
  const kit = new PoolKit();
  upstream(kit, 'a', { models: ['m'], outage: 'it restarts' });
  kit.submit('one', { type: 'inference', model: 'm' });
  upstream(kit, 'a', { models: ['other'], formerModels: ['m'] });
  const { code, text } = explain(kit.engine.state, kit.job('one')) ?? {};
  assert.deepEqual([code, text?.endsWith('"a" had the model, and no longer has it')], ['no_backend', true]);
  const { code: refused, message } = refusal(kit, { model: 'm' });
  assert.deepEqual(
    [refused, message],
    ['MODEL_NOT_FOUND', 'there is no model "m": "a" had it, and no longer has it'],
  );
  upstream(kit, 'a', { models: ['m'] });
  assert.equal(kit.state('one'), 'claimed');
});

test('a job may wait for a model that nobody has yet, if an upstream may have it later', () => {
  const kit = new PoolKit();
  assert.equal(refusal(kit, { model: 'later', unrunnable: 'wait' }).code, 'MODEL_NOT_FOUND');
  upstream(kit, 'a', { models: ['m'] });
  assert.equal(refusal(kit, { model: 'later' }).code, 'MODEL_NOT_FOUND');
  kit.submit('one', { type: 'inference', model: 'later', unrunnable: 'wait' });
  upstream(kit, 'a', { models: ['m', 'later'] });
  assert.equal(kit.state('one'), 'claimed');
});

test('[FANO-11] a try on a seat has the timeout of its gateway; where several have the model, the longest holds', () => {
  const kit = new PoolKit();
  const timeout = (id: string): number | undefined => {
    kit.submit(id, { type: 'inference', model: 'm' });
    return kit.job(id).ask.spec.timeout_ms;
  };
  upstream(kit, 'seat', { models: ['m'], timeoutMs: 3_600_000 });
  assert.equal(timeout('seat only'), 3_600_000);
  upstream(kit, 'up', { models: ['m'] });
  assert.equal(timeout('both'), 3_600_000);
  upstream(kit, 'seat', { models: [], timeoutMs: 3_600_000 });
  assert.equal(timeout('upstream only'), 300_000);
});
