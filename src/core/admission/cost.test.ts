import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields } from '../../../test/fakes/engine-kit.ts';
import { OrchdError } from '../../model/errors.ts';
import type { PriceSpec } from '../../model/price.ts';

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

describe('a job on a hard budget is refused at once', () => {
  test('if nothing bounds its cost, with the field that leaves it open', () => {
    const open = (field: string) => ['ADMISSION_REJECT', 'unbounded_cost', field];
    assert.equal(refusalOf({}), undefined, 'a bounded one is not');
    assert.deepEqual(refusalOf({ maxOutput: undefined }), open('max_tokens'));
    assert.deepEqual(refusalOf({ maxOutput: undefined, unboundedBy: 'n' }), open('n'));
    assert.deepEqual(refusalOf({ images: 1 }), open('content.image_url'));
    assert.equal(refusalOf({ images: 1 }, { imageTokens: 100 }), undefined, 'the price bounds images');
    assert.deepEqual(refusalOf({ timeout_ms: undefined }, { second: 1 }), open('timeout_ms'));
  });

  test('if it is dearer than the budget, or has no price', () => {
    assert.deepEqual(refusalOf({ maxOutput: 100_000_000 }), ['ADMISSION_REJECT', 'cost_budget', undefined]);
    assert.deepEqual(refusalOf({}, { model: 'other' }), ['ADMISSION_REJECT', 'no_price', undefined]);
  });
});
