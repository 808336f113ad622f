import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Fields, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import { OrchdError } from '../../model/errors.ts';

/** The code and reason with which a job is refused. */
function refusal(kit: PoolKit, fields: Fields): string {
  const reply = kit.trySubmit(`j${kit.log.length}`, { type: 'inference', ...fields });
  if (!(reply instanceof OrchdError)) return 'taken';
  return `${reply.status} ${reply.code} ${reply.details.reason ?? ''}`.trim();
}

function kitWith(settings: ConstructorParameters<typeof PoolKit>[0] = {}): PoolKit {
  const kit = new PoolKit(settings);
  kit.pool('p', [80]);
  kit.model('m', { aliases: ['mm'], contextLength: 1000 });
  return kit;
}

describe('before a job is queued', () => {
  test('[ORCH-1011] [ORCH-1120] its context, its budget and its model are checked', () => {
    const kit = kitWith();
    assert.equal(refusal(kit, { model: 'nobody' }), '404 MODEL_NOT_FOUND');
    assert.equal(refusal(kit, { model: 'm', contextTokens: 1000 }), 'taken');
    assert.equal(refusal(kit, { model: 'm', contextTokens: 1001 }), '422 ADMISSION_REJECT context_length');
    kit.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 100 });
    assert.equal(
      refusal(kit, { model: 'm', session_id: 's', tokens: 101 }),
      '422 ADMISSION_REJECT token_budget',
    );
    assert.equal(refusal(kit, { model: 'm', session_id: 's', tokens: 60 }), 'taken');
    assert.equal(
      refusal(kit, { model: 'm', session_id: 's', tokens: 60 }),
      '422 ADMISSION_REJECT token_budget',
      'what a waiting job may use counts',
    );
    assert.equal(kit.engine.state.counts.queued, 2, 'what was refused has left nothing');
  });

  test('[ORCH-1011] the budget is that of the session or else of the settings, less what the session has used', () => {
    for (const priority of ['interactive', 'batch'] as const) {
      const kit = kitWith({ sessionTokenBudget: 100 });
      const job = { model: 'm', session_id: 's', priority };
      assert.equal(refusal(kit, { ...job, tokens: 101 }), '422 ADMISSION_REJECT token_budget');
      kit.ask('first', 'm', { ...job, tokens: 10 });
      kit.obey();
      kit.accept('first');
      kit.end('first', { ok: true, result: '1', usage: usedTokens(30, 40, 1) });
      assert.equal(refusal(kit, { ...job, tokens: 31 }), '422 ADMISSION_REJECT token_budget');
      assert.equal(refusal(kit, { ...job, tokens: 30 }), 'taken');
    }
  });

  test('[ORCH-1073] a job for a model that says nothing of a timeout has the one of the settings', () => {
    const kit = kitWith({ workerTimeoutMs: 7000 });
    kit.submit('silent', { type: 'inference', model: 'm' });
    kit.submit('says', { type: 'inference', model: 'm', timeout_ms: 9000 });
    const timeouts = ['silent', 'says'].map((id) => kit.job(id).ask.spec.timeout_ms);
    assert.deepEqual(timeouts, [7000, 9000]);
  });

  test('[ORCH-1073] so has a job for a model that only a worker knows, and not one for another backend', () => {
    const kit = kitWith({ workerTimeoutMs: 7000 });
    kit.ask('asked', 'm');
    kit.obey();
    const found = { ...kit.reportOf('p').workers[0]!, id: 'stranger', modelRef: 'demo:unregistered' };
    kit.pools.get('p')?.workers.set('stranger', found);
    kit.report('p');
    kit.backend('b', { types: ['inference'], models: ['other'] });
    const timeouts = ['demo:unregistered', 'other'].map((model) => {
      kit.ask(model, model);
      return kit.job(model).ask.spec.timeout_ms;
    });
    assert.deepEqual(timeouts, [7000, undefined]);
  });

  test('[ORCH-1081] a model is active or retired, and a retired one takes no jobs', () => {
    const kit = kitWith();
    assert.equal(kit.engine.state.catalog.get('m')?.state, 'active');
    kit.step({ type: 'model-state', id: 'm', state: 'retired' });
    assert.equal(refusal(kit, { model: 'm' }), '422 ADMISSION_REJECT model_retired');
    assert.equal(refusal(kit, { model: 'mm' }), '422 ADMISSION_REJECT model_retired');
    kit.step({ type: 'model-state', id: 'm', state: 'active' });
    assert.equal(refusal(kit, { model: 'm' }), 'taken');
  });

  test('[ORCH-1082] a model whose file failed its verification is refused only with verifyPolicy block', () => {
    const verified = { at: 1, pool: 'p', verdict: 'fail' as const, sha256: '0' };
    for (const [verifyPolicy, expected] of [
      ['warn', 'taken'],
      ['block', '422 MODEL_UNVERIFIED'],
    ] as const) {
      const kit = kitWith({ verifyPolicy });
      kit.step({ type: 'verified', id: 'm', verified });
      assert.equal(refusal(kit, { model: 'm' }), expected);
    }
  });

  test('a name belongs to one model, as its id, an alias or its reference', () => {
    const kit = kitWith();
    const { ref } = kit.engine.state.catalog.get('m')!;
    for (const name of ['m', 'mm', ref]) {
      kit.ask(`by ${name}`, name);
      assert.deepEqual(
        [kit.job(`by ${name}`).ask.spec.model, kit.job(`by ${name}`).ask.modelRef],
        ['m', ref],
      );
    }
    const { reply } = kit.step({
      type: 'register',
      model: { ...kit.engine.state.catalog.get('m')!, id: 'other', aliases: ['mm'] },
    });
    assert.equal(reply instanceof OrchdError && reply.code, 'ILLEGAL_STATE');
    kit.model('m', { aliases: ['new'] });
    assert.equal(kit.engine.state.catalog.find('mm'), undefined);
    assert.equal(kit.engine.state.catalog.find('new')?.id, 'm');
  });

  test('a backend that declares the id of a model runs jobs that name it by an alias', () => {
    const kit = kitWith();
    kit.backend('own', { types: ['inference'], models: ['m'] });
    for (const name of ['mm', 'm']) {
      kit.ask(`by ${name}`, name);
      assert.equal(kit.job(`by ${name}`).job.backend, 'own');
      kit.accept(`by ${name}`);
      kit.end(`by ${name}`, SUCCESS);
    }
  });

  test('a job without a model gets the only one of the catalog, and never an arbitrary worker', () => {
    const kit = kitWith();
    kit.submit('a', { type: 'inference' });
    assert.equal(kit.job('a').ask.spec.model, 'm');
    kit.submit('other', { type: 'command' });
    assert.equal(kit.job('other').ask.spec.model, undefined);
    kit.obey();
    kit.model('second');
    kit.submit('b', { type: 'inference' });
    assert.deepEqual([kit.job('b').ask.spec.model, kit.state('b')], [undefined, 'queued']);
  });

  test('jobs that need more context than a worker has are not given to it', () => {
    const kit = new PoolKit();
    kit.pool('p', [80]);
    kit.model('m', { contextLength: 32_768, slots: 4 });
    kit.ask('short', 'm', { contextTokens: 100 });
    kit.obey();
    const [id] = [...kit.engine.state.workers.entries()][0]!;
    kit.set('p', id, { contextLength: 8192 });
    kit.report('p');
    kit.ask('middle', 'm', { contextTokens: 5000 });
    kit.ask('long', 'm', { contextTokens: 9000 });
    assert.deepEqual([kit.state('middle'), kit.state('long')], ['claimed', 'queued']);
  });
});

describe('a session', () => {
  test('is charged what its jobs really used, and returns to the worker that has its context', () => {
    const kit = kitWith();
    kit.model('m', { slots: 4 });
    kit.ask('a', 'm', { session_id: 's', tokens: 500 });
    kit.obey();
    kit.accept('a');
    const usage = usedTokens(10, 20, 100);
    kit.end('a', { ok: true, result: '{}', usage });
    const session = () => kit.engine.state.tables.session.get('default~s');
    assert.deepEqual(
      [session()?.tokensUsed, session()?.turns, session()?.threads?.at(-1)?.backend],
      [30, 1, kit.job('a').job.backend],
    );
    assert.equal(kit.engine.state.roster.reservedTokens('default', 's'), 0);
  });

  test('that is deleted cancels its jobs', () => {
    const kit = kitWith();
    kit.ask('a', 'm', { session_id: 's' });
    kit.ask('b', 'm', { session_id: 's', parallel: true });
    kit.obey();
    kit.accept('a');
    kit.step({ type: 'forget-session', tenant: 'default', id: 's', by: 'test' });
    assert.ok(kit.job('a').job.cancel);
    assert.equal(kit.state('b'), 'cancelled');
    assert.equal(kit.engine.state.tables.session.size, 0);
    const { reply } = kit.step({ type: 'forget-session', tenant: 'default', id: 's', by: 'test' });
    assert.equal(reply instanceof OrchdError && reply.code, 'NOT_FOUND');
    kit.end('a', SUCCESS);
    assert.equal(kit.engine.state.tables.session.size, 0, 'a late end does not bring it back');
  });
});
