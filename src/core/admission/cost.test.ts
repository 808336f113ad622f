import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields } from '../../../test/fakes/engine-kit.ts';
import { cost, MoneyKit } from '../../../test/fakes/money-kit.ts';
import { OrchdError } from '../../model/errors.ts';
import type { PriceSpec } from '../../model/price.ts';

const HARD = { hard: true } as const;

function kitOf(limit: object, prices?: object[]): MoneyKit {
  const kit = new MoneyKit([{ scope: 'agent:*', costBudget: 10, ...HARD, ...limit }], {
    ...(prices && { prices: prices as never }),
  });
  kit.backend('b', { slots: 9, paid: true });
  return kit;
}

describe('a job on a hard budget is refused at once', () => {
  test('if it may cost more than the whole budget, with a window or without', () => {
    assert.equal(kitOf({}).refusalOf('a', 11), 'ADMISSION_REJECT cost_budget');
    assert.equal(kitOf({ window: 'day' }).refusalOf('a', 11), 'ADMISSION_REJECT cost_budget');
    assert.equal(kitOf({}).refusalOf('a', 10), undefined);
    assert.equal(kitOf({ hard: undefined }).refusalOf('a', 11), undefined);
  });

  test('if what is spent leaves too little for good, and not if only what is reserved does', () => {
    const kit = kitOf({});
    kit.ask('a', 6);
    assert.equal(kit.refusalOf('b', 6), undefined);
    kit.cancel('b');
    kit.end('a', cost.success(6));
    assert.equal(kit.refusalOf('c', 6), 'ADMISSION_REJECT cost_budget');
    assert.equal(kit.refusalOf('d', 4), undefined);
  });

  test('if nothing bounds its cost, naming the field', () => {
    const kit = kitOf({});
    const answer = kit.trySubmit('a');
    assert.ok(answer instanceof OrchdError);
    assert.deepEqual([answer.details.reason, answer.details.field], ['unbounded_cost', 'max_tokens']);
  });

  test('if its model has no price where it is paid for, and not where it is free', () => {
    const kit = kitOf({}, [{ model: 'other', output: 1 }]);
    assert.equal(kit.refusalOf('a', 1), 'ADMISSION_REJECT no_price');
    kit.backend('free');
    assert.equal(kit.refusalOf('a', 1), undefined);
    assert.equal(kit.job('a').open?.backend, 'free');
  });

  test('unless another backend takes it for less', () => {
    const prices = [
      { model: '*', output: 1_000_000 },
      { model: '*', seat: 'cheap', output: 100_000 },
    ];
    const kit = kitOf({}, prices);
    assert.equal(kit.refusalOf('a', 50), 'ADMISSION_REJECT cost_budget');
    kit.backend('cheap', { paid: true });
    assert.equal(kit.refusalOf('a', 50), undefined);
    assert.equal(kit.job('a').open?.backend, 'cheap');
  });

  test('if the budget of its root cannot hold it, although it would have one of its own', () => {
    const kit = new MoneyKit([{ scope: 'root:*', costBudget: 10, ...HARD }]);
    kit.backend('b', { slots: 9, paid: true });
    kit.ask('top', 8);
    kit.accept('top');
    kit.ask('child', 2, { parent_id: 'top' });
    kit.end('child', cost.success(2));
    assert.equal(kit.refusalOf('large', 9, { parent_id: 'top' }), 'ADMISSION_REJECT cost_budget');
    assert.equal(kit.refusalOf('alone', 9), undefined);
  });

  test('and leaves no change behind', () => {
    const kit = kitOf({});
    const before = kit.log.length;
    kit.refusalOf('a', 11);
    assert.equal(kit.log.length, before);
  });
});

const MILLION = 1_000_000;
const BOUNDED: Fields = { model: 'm', payloadBytes: 10, messages: 1, maxOutput: 10, timeout_ms: 1000 };

function refusalOf(fields: Fields, price: Partial<PriceSpec> = {}): unknown {
  const limits = [{ scope: 'global', costBudget: 10_000_000, window: 'total', hard: true }];
  const prices = [{ model: 'm', input: MILLION, output: MILLION, ...price }];
  const kit = new EngineKit({ prices, limits: limits as never });
  kit.backend('s', { models: ['m'], paid: true });
  const reply = kit.trySubmit('a', { ...BOUNDED, ...fields });
  return reply instanceof OrchdError ? [reply.code, reply.details.reason, reply.details.field] : undefined;
}

describe('a job whose cost nothing bounds is refused on a hard budget', () => {
  test('with the field that leaves it open', () => {
    const open = (field: string) => ['ADMISSION_REJECT', 'unbounded_cost', field];
    assert.equal(refusalOf({}), undefined, 'a bounded one is not');
    assert.deepEqual(refusalOf({ maxOutput: undefined }), open('max_tokens'));
    assert.deepEqual(refusalOf({ maxOutput: undefined, unboundedBy: 'n' }), open('n'));
    assert.deepEqual(refusalOf({ images: 1 }), open('content.image_url'));
    assert.equal(refusalOf({ images: 1 }, { imageTokens: 100 }), undefined, 'the price bounds images');
    assert.deepEqual(refusalOf({ timeout_ms: undefined }, { second: 1 }), open('timeout_ms'));
  });
});
