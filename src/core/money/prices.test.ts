import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit } from '../../../test/fakes/engine-kit.ts';
import { OrchdError } from '../../model/errors.ts';
import { priceBookOf, pricesOf } from './prices.ts';

const CONFIGURED = [{ model: 'm', input: 1 }];

test('prices set at run time replace all configured ones, and invalid ones change nothing', () => {
  const kit = new EngineKit({ prices: CONFIGURED });
  assert.equal(pricesOf(kit.engine), CONFIGURED);
  const set = [{ model: 'n', input: 2 }];
  kit.step({ type: 'prices', prices: set, by: 'ops' });
  assert.deepEqual(kit.engine.state.tables.prices.get('prices'), {
    v: 1,
    by: 'ops',
    at: kit.now,
    prices: set,
  });
  assert.equal(priceBookOf(kit.engine).find('s', 'm', false, 0), undefined);
  const { reply } = kit.step({ type: 'prices', prices: [{ model: 'n', input: -1 }], by: 'ops' });
  assert.ok(reply instanceof OrchdError);
  assert.equal(reply.details.field, 'prices[0].input');
  assert.equal(pricesOf(kit.engine), set);
  kit.step({ type: 'prices', prices: [], by: 'ops' });
  assert.deepEqual(pricesOf(kit.engine), [], 'no price at all is a choice too');
});

test('the book of a list of prices is made once', () => {
  const kit = new EngineKit({ prices: CONFIGURED });
  assert.equal(priceBookOf(kit.engine), priceBookOf(kit.engine));
});

test('a brain whose configured prices are invalid does not start', () => {
  const invalid = [{ model: 'm' }, { model: 'm' }];
  assert.throws(() => new EngineKit({ prices: invalid }), /prices\[1\]\.model: "m" has two prices/);
});
