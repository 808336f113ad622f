import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OrchdError } from '../../model/errors.ts';
import type { PriceSpec } from '../../model/price.ts';
import { PriceBook } from './price-book.ts';

/** The input rate of the price that applies. */
const found = (book: PriceBook, seat: string, model: string | undefined, now = 0): number | undefined =>
  book.find(seat, model, false, now)?.rates[0];

describe('the price of an attempt', () => {
  test('is the most specific one', () => {
    const book = new PriceBook([
      { model: '*', input: 1 },
      { model: '*', seat: 's', input: 2 },
      { model: 'm', input: 3 },
      { model: 'm', seat: 's', input: 4 },
    ]);
    assert.equal(found(book, 's', 'm'), 4);
    assert.equal(found(book, 'other', 'm'), 3);
    assert.equal(found(book, 's', 'other'), 2);
    assert.equal(found(book, 's', undefined), 2);
    assert.equal(found(book, 'other', 'other'), 1);
    assert.equal(found(book, 'other', undefined), 1);
    assert.equal(found(new PriceBook([{ model: 'm', input: 1 }]), 's', 'other'), undefined);
    assert.equal(found(new PriceBook([]), 's', 'm'), undefined);
  });

  test('is the last that has begun; one that has not begun gives way to a less specific one', () => {
    const book = new PriceBook([
      { model: 'm', validFrom: 200, input: 3 },
      { model: 'm', input: 1 },
      { model: 'm', validFrom: 100, input: 2 },
      { model: 'm', seat: 's', validFrom: 300, input: 4 },
    ]);
    assert.deepEqual(
      [0, 99, 100, 199, 200, 299, 300].map((now) => found(book, 's', 'm', now)),
      [1, 1, 2, 2, 3, 3, 4],
    );
  });

  test('has by default the rates of the input for caches, and of the output for reasoning', () => {
    const book = new PriceBook([{ model: 'm', input: 5, output: 7 }]);
    assert.deepEqual(book.find('s', 'm', false, 0), {
      rates: [5, 5, 5, 7, 7, 0, 0, 0, 100],
      dearest: [5, 0, 0, 7, 0, 0, 0, 0, 100],
      messageOverhead: 16,
      requestOverhead: 1024,
      imageTokens: undefined,
      perSecond: false,
    });
    const cached = new PriceBook([
      { model: 'm', input: 5, cacheRead: 0, output: 7, reasoning: 0, second: 1 },
    ]);
    assert.deepEqual(cached.find('s', 'm', false, 0)?.rates, [5, 0, 5, 7, 0, 0, 0, 1, 100]);
    assert.equal(cached.find('s', 'm', false, 0)?.perSecond, true);
  });

  test('is a share of it on seats that run batches', () => {
    const book = new PriceBook([
      { model: 'm', input: 5, batchPercent: 50 },
      { model: 'n', input: 5 },
    ]);
    assert.equal(book.find('s', 'm', true, 0)?.rates[8], 50);
    assert.equal(book.find('s', 'm', false, 0)?.rates[8], 100);
    assert.equal(book.find('s', 'n', true, 0)?.rates[8], 100);
  });

  test('is one frozen object, however often it is asked for', () => {
    const book = new PriceBook([{ model: '*', input: 5, batchPercent: 50 }]);
    for (const isBatched of [true, false]) {
      const price = book.find('s', 'm', isBatched, 0);
      assert.ok(price);
      assert.equal(book.find('t', 'n', isBatched, 1), price);
      assert.ok(Object.isFrozen(price));
    }
  });
});

describe('prices are refused, with the field that is wrong,', () => {
  const refused = (prices: readonly PriceSpec[], field: string): void =>
    assert.throws(
      () => new PriceBook(prices),
      (error) =>
        error instanceof OrchdError && error.code === 'INVALID_PARAMS' && error.details.field === field,
    );

  test('if a number is negative, no whole number, not finite or too large', () => {
    const good = { model: 'ok', input: 1 };
    for (const bad of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 1e15 + 1, 2 ** 60]) {
      refused([good, { model: 'm', cacheRead: bad }], 'prices[1].cache_read');
      refused([good, { model: 'm', batchPercent: bad }], 'prices[1].batch_percent');
    }
    refused([{ model: 'm', validFrom: Number.NaN }], 'prices[0].valid_from');
  });

  test('if one name has two of them from the same time on', () => {
    refused([{ model: 'm' }, { model: 'm' }], 'prices[1].model');
    refused(
      [
        { model: 'm', seat: 's', validFrom: 5 },
        { model: 'm', seat: 's', validFrom: 5 },
      ],
      'prices[1].model',
    );
    new PriceBook([{ model: 'm' }, { model: 'm', seat: 's' }, { model: 'm', validFrom: 5 }]);
  });
});
