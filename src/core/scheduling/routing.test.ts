import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  refusal,
  SUCCESS,
  TURNED_AWAY,
} from '../../../test/fakes/engine-kit.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import { DEFAULT_POLICY, type GovernanceRule } from '../../model/governance.ts';
import type { RouteReason, RouteStep } from '../../model/route.ts';
import type { EngineSettings } from '../settings.ts';

const ALL: readonly RouteReason[] = ['rate_limited', 'error', 'too_long', 'budget'];
const step = (model: string, fields: Partial<RouteStep> = {}): RouteStep => ({ model, on: ALL, ...fields });

/** A brain with three seats, one for each model, and a route over the models. */
function routed(
  steps: readonly RouteStep[] = [step('a'), step('b'), step('c')],
  settings: Partial<EngineSettings> = {},
  random: () => number = () => 0,
): EngineKit {
  const kit = new EngineKit(
    { breaker: { failures: 2, pauseMs: 1000, maxPauseMs: 1000 }, ...settings },
    random,
  );
  for (const model of ['a', 'b', 'c']) seat(kit, model);
  setRoute(kit, steps);
  return kit;
}

const seat = (kit: EngineKit, model: string, fields: object = {}): void =>
  kit.backend(`seat-${model}`, {
    models: [model],
    hasForeignModels: true,
    hasProvider: true,
    paid: true,
    contextLengths: new Map([[model, 10_000]]),
    ...fields,
  });

function setRoute(kit: EngineKit, steps: readonly RouteStep[], id = 'fast'): unknown {
  const { reply } = kit.step({ type: 'route', id, steps, by: 'test' });
  if (reply instanceof OrchdError) throw reply;
  return reply;
}

const submit = (kit: EngineKit, id: string, fields: object = {}): void =>
  void kit.submit(id, { model: 'fast', type: 'inference', ...fields });

const modelAt = (kit: EngineKit, id: string): string | undefined =>
  kit.job(id).open?.backend.replace('seat-', '');

const left = (kit: EngineKit, id: string): string[] =>
  (kit.job(id).job.place?.left ?? []).map(({ model, why }) => `${model}:${why}`);

const run = (kit: EngineKit, id: string, outcome: typeof SUCCESS): void => {
  kit.accept(id);
  kit.end(id, outcome);
};

describe('a job whose route names a model that governance forbids', () => {
  const deny = (rule: Partial<GovernanceRule>, shadow = false): Partial<EngineSettings> => ({
    governance: { ...DEFAULT_POLICY, shadow, rules: [{ name: 'no', effect: 'deny', ...rule }] },
  });
  const unlisted = [step('a', { on: [] }), step('b', { on: [] }), step('c', { on: [] })];

  test('begins at the next one that is allowed, whatever its steps list', () => {
    const kit = routed(unlisted, deny({ models: ['a', 'b'] }));
    submit(kit, 'j');
    assert.equal(modelAt(kit, 'j'), 'c');
    assert.deepEqual(left(kit, 'j'), ['a:forbidden', 'b:forbidden']);
  });

  test('goes on where the model was allowed at its admission, and is not when it would start', () => {
    const kit = routed(unlisted, deny({ models: ['a'], modes: ['ALERT'] }));
    submit(kit, 'first');
    submit(kit, 'j');
    assert.deepEqual([kit.job('j').job.place?.model, modelAt(kit, 'j')], ['a', undefined]);
    kit.step({ type: 'mode', order: { mode: 'ALERT', by: 'ann', why: 'a test', isPerson: true } });
    run(kit, 'first', SUCCESS);
    assert.equal(modelAt(kit, 'j'), 'b');
    assert.deepEqual(left(kit, 'j'), ['a:forbidden']);
  });

  test('is denied where all are forbidden, and stays in shadow mode', () => {
    const kit = routed(unlisted, deny({ models: ['*'] }));
    assert.equal(
      (kit.trySubmit('j', { model: 'fast', type: 'inference' }) as OrchdError).code,
      'GOVERNANCE_DENIED',
    );
    const shadow = routed(unlisted, deny({ models: ['a'] }, true));
    submit(shadow, 'j');
    assert.equal(modelAt(shadow, 'j'), 'a');
  });
});

describe('a job that names a route', () => {
  test('is for the first model, and says so in its attempt', () => {
    const kit = routed();
    submit(kit, 'j');
    assert.equal(modelAt(kit, 'j'), 'a');
    assert.equal(kit.job('j').open?.model, 'a');
    assert.equal(kit.job('j').ask.route, 'fast');
    assert.deepEqual(left(kit, 'j'), []);
  });

  test('goes on after a failure of the provider, at once, and the failed try counts', () => {
    const kit = routed();
    submit(kit, 'j');
    run(kit, 'j', FAILED_FOR_NOW);
    assert.equal(modelAt(kit, 'j'), 'b');
    assert.deepEqual(left(kit, 'j'), ['a:error']);
    run(kit, 'j', FAILED_FOR_NOW);
    assert.equal(modelAt(kit, 'j'), 'c');
    run(kit, 'j', FAILED_FOR_NOW);
    assert.equal(kit.state('j'), 'dead', 'three tries are all it has');
  });

  test('does not go on after an error of its own', () => {
    const kit = routed();
    submit(kit, 'j');
    run(kit, 'j', FAILED);
    assert.equal(kit.state('j'), 'dead');
  });

  test('goes on where the model is too short for it, before a try and after one', () => {
    const kit = routed();
    seat(kit, 'c', { contextLengths: new Map([['c', 50_000]]) });
    submit(kit, 'long', { contextTokens: 20_000 });
    assert.equal(modelAt(kit, 'long'), 'c');
    assert.deepEqual(left(kit, 'long'), ['a:too_long', 'b:too_long']);
    submit(kit, 'longer-than-it-looks');
    run(kit, 'longer-than-it-looks', { ok: false, error: errorInfo('CONTEXT_TOO_LONG') });
    assert.equal(modelAt(kit, 'longer-than-it-looks'), 'b');
  });

  test('goes on when its provider turns it away, without a try; those behind it and those that come go too', () => {
    const kit = routed();
    submit(kit, 'j');
    submit(kit, 'behind');
    assert.equal(modelAt(kit, 'behind'), undefined);
    run(kit, 'j', { ...TURNED_AWAY, retryAfterMs: 60_000 } as typeof TURNED_AWAY);
    assert.equal(modelAt(kit, 'j'), 'b');
    assert.equal(kit.job('j').job.tries, 0);
    assert.deepEqual(left(kit, 'behind'), ['a:rate_limited'], 'it waits for b now, where j runs');
    submit(kit, 'new');
    assert.deepEqual(left(kit, 'new'), ['a:rate_limited']);
    kit.pass(60_000);
    submit(kit, 'later');
    assert.equal(modelAt(kit, 'later'), 'a', 'work comes back when the provider takes it again');
  });

  test('passes over a model whose seats are paused by their breaker, and comes back when it closes', () => {
    const kit = routed();
    for (const id of ['x', 'y']) {
      kit.submit(id, { model: 'a', type: 'inference', max_tries: 1 });
      run(kit, id, FAILED_FOR_NOW);
    }
    submit(kit, 'j');
    assert.deepEqual([modelAt(kit, 'j'), left(kit, 'j')], ['b', ['a:error']]);
    kit.pass(1000);
    submit(kit, 'probe');
    assert.equal(modelAt(kit, 'probe'), 'a');
    run(kit, 'probe', SUCCESS);
    submit(kit, 'k');
    assert.equal(modelAt(kit, 'k'), 'a');
  });

  test('waits or fails at a step that does not list what happens there', () => {
    const kit = routed([step('a', { on: ['budget'] }), step('b')]);
    submit(kit, 'j');
    run(kit, 'j', { ...TURNED_AWAY, retryAfterMs: 5000 } as typeof TURNED_AWAY);
    assert.equal(modelAt(kit, 'j'), undefined);
    kit.pass(5000);
    assert.equal(modelAt(kit, 'j'), 'a');
    run(kit, 'j', FAILED_FOR_NOW);
    kit.pass(1000);
    assert.equal(modelAt(kit, 'j'), 'a', 'it is tried again where it was');
  });

  test('leaves a step after it has waited there for as long as the step allows, and not when it runs', () => {
    const kit = routed([step('a', { on: ['wait_ms'], waitMs: 2000 }), step('b')]);
    submit(kit, 'running');
    submit(kit, 'waiting');
    kit.accept('running');
    kit.pass(1999);
    assert.equal(modelAt(kit, 'waiting'), undefined);
    kit.pass(1);
    assert.deepEqual([modelAt(kit, 'waiting'), left(kit, 'waiting')], ['b', ['a:wait_ms']]);
    assert.equal(modelAt(kit, 'running'), 'a');
    kit.end('running', SUCCESS);
  });

  test('uses a step with a time of day only at that time', () => {
    const time = { from: '22:00', to: '06:00', timeZone: 'Europe/Berlin' };
    const kit = routed([step('a', { on: ['time'], time }), step('b')]);
    kit.now = Date.parse('2026-07-01T19:59:00Z');
    submit(kit, 'day');
    assert.deepEqual([modelAt(kit, 'day'), left(kit, 'day')], ['b', ['a:time']]);
    kit.now = Date.parse('2026-07-01T20:00:00Z');
    submit(kit, 'night');
    assert.equal(modelAt(kit, 'night'), 'a');
    submit(kit, 'overslept');
    kit.now = Date.parse('2026-07-02T04:00:00Z');
    kit.accept('night');
    kit.end('night', SUCCESS);
    assert.deepEqual(left(kit, 'overslept'), ['a:time'], 'a job that waited past the time goes on');
  });

  test('goes on when a hard budget has no room for the model, and is cheaper elsewhere', () => {
    const prices = [
      { model: 'a', request: 100 },
      { model: 'b', request: 1 },
    ];
    const limits = [{ scope: 'global', costBudget: 250, hard: true }];
    const kit = routed([step('a'), step('b')], { prices, limits });
    for (const model of ['a', 'b']) seat(kit, model, { slots: 10 });
    for (const id of ['j1', 'j2', 'j3']) submit(kit, id);
    assert.deepEqual(
      ['j1', 'j2', 'j3'].map((id) => modelAt(kit, id)),
      ['a', 'a', 'b'],
    );
    assert.deepEqual(left(kit, 'j3'), ['a:budget']);
    assert.equal(kit.job('j3').open?.bill?.reserved, 1);
  });

  test('begins at one of the first steps by their weights', () => {
    let at = 0;
    const kit = routed(
      [step('a', { weight: 9 }), step('b', { weight: 1 }), step('c')],
      {},
      () => (at++ % 10) / 10,
    );
    for (const model of ['a', 'b']) seat(kit, model, { slots: 100 });
    for (let i = 0; i < 100; i++) submit(kit, `j${i}`);
    const onB = kit.claims.filter((id) => modelAt(kit, id) === 'b');
    assert.equal(onB.length, 10);
  });

  test('is waited for by its place also after a restart, and stays where it is when the route is deleted', () => {
    const kit = routed();
    submit(kit, 'j');
    run(kit, 'j', { ...TURNED_AWAY, retryAfterMs: 60_000 } as typeof TURNED_AWAY);
    submit(kit, 'waits');
    assert.equal(
      kit.job('waits').lane?.key,
      kit.engine.queue.fleet.findOrCreateLane({
        modelRef: undefined,
        contextTokens: undefined,
        spec: { type: 'inference', model: 'b' },
      }).key,
    );
    kit.step({ type: 'drop-route', id: 'fast', by: 'test' });
    run(kit, 'j', FAILED_FOR_NOW);
    kit.pass(10_000);
    assert.equal(kit.job('j').job.place?.model, 'b');
    assert.throws(() => submit(kit, 'new'), refusal('MODEL_NOT_FOUND'));
  });

  test('counts for the limits of its route', () => {
    const kit = routed(undefined, { limits: [{ scope: 'route:fast', running: 1 }] });
    submit(kit, 'j');
    kit.submit('direct', { model: 'b', type: 'inference' });
    submit(kit, 'k');
    assert.equal(kit.job('k').parked, 'quota');
    assert.equal(modelAt(kit, 'direct'), 'b');
  });
});

describe('a route is refused', () => {
  const cases: readonly (readonly [string, readonly RouteStep[], string])[] = [
    ['that names itself', [step('fast')], 'steps[0].model'],
    ['that names another route', [step('a'), step('other')], 'steps[1].model'],
    ['with a model twice', [step('a'), step('a')], 'steps[1].model'],
    ['with a wait that nothing uses', [step('a', { waitMs: 5 })], 'steps[0].wait_ms'],
    [
      'that leaves after a wait without saying how long',
      [step('a', { on: ['wait_ms'] })],
      'steps[0].wait_ms',
    ],
    ['with a weight after steps without one', [step('a'), step('b', { weight: 1 })], 'steps[1].weight'],
    ['whose weights are all 0', [step('a', { weight: 0 })], 'steps[0].weight'],
    [
      'with an unknown time zone',
      [step('a', { on: ['time'], time: { from: '08:00', to: '09:00', timeZone: 'Berlin' } })],
      'steps[0].time.time_zone',
    ],
  ];
  for (const [name, steps, field] of cases)
    test(name, () => {
      const kit = routed();
      setRoute(kit, [step('a')], 'other');
      assert.throws(
        () => setRoute(kit, steps),
        (error) => error instanceof OrchdError && error.details.field === field,
      );
      assert.equal(kit.engine.state.tables.route.get('fast')?.steps.length, 3, 'nothing has changed');
    });

  test('that has the name of a model, and a model that has the name of a route', () => {
    const kit = routed();
    const model = {
      id: 'own',
      name: 'own',
      ref: 'file:own.gguf',
      aliases: [],
      sizeBytes: 1,
      vramBytes: 1,
      vramGuessed: false,
      contextLength: 100,
      slots: undefined,
      sha256: undefined,
      signature: undefined,
    };
    kit.step({ type: 'register', model: model as never });
    assert.throws(() => setRoute(kit, [step('a')], 'own'), refusal('ILLEGAL_STATE'));
    const { reply } = kit.step({ type: 'register', model: { ...model, id: 'fast' } as never });
    assert.ok(refusal('ILLEGAL_STATE')(reply));
  });
});
