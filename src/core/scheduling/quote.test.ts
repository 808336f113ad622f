import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backendInfo, makeEntry, SETTINGS } from '../../../test/fakes/engine-kit.ts';
import type { PriceSpec } from '../../model/price.ts';
import { BackendEntry } from '../queue/fleet.ts';
import { type Quote, quote } from './quote.ts';

const price: PriceSpec = { model: 'm', output: 1_000_000, batchPercent: 50 };

function quoteOf(fields: object, isHard: boolean, info: object = {}, prices: PriceSpec[] = [price]): Quote {
  const view = { state: { tables: { prices: new Map() } }, settings: { ...SETTINGS, prices } };
  const backend = new BackendEntry(backendInfo('b', { paid: true, ...info }), 1);
  return quote(view, backend, makeEntry(1, fields).ask, 'm', isHard, 0);
}

const held = (found: Quote): unknown =>
  found.is === 'priced' ? [found.bill.reserved, found.bill.isBound] : found.is;

test('a hard budget holds back an upper bound, another one an estimate', () => {
  assert.deepEqual(held(quoteOf({ maxOutput: 10, tokens: 4 }, true)), [10, true]);
  assert.deepEqual(held(quoteOf({ maxOutput: 10, tokens: 4 }, false)), [4, false]);
});

test('a seat that runs batches takes its share of the price', () => {
  assert.deepEqual(held(quoteOf({ maxOutput: 10 }, true, { isBatched: true })), [5, true]);
});

test('without a bound or a price a hard budget has no answer; others go on', () => {
  assert.equal(held(quoteOf({}, true)), 'unbounded');
  assert.equal(held(quoteOf({ maxOutput: 10 }, true, {}, [])), 'unpriced');
  assert.equal(held(quoteOf({ maxOutput: 10 }, false, {}, [])), 'free');
  assert.equal(held(quoteOf({ maxOutput: 10 }, true, { paid: false }, [])), 'free');
});
