import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { costOf, type PriceSpec } from '../../model/price.ts';
import { boundOf, estimateOf } from './bound.ts';
import { type Price, PriceBook } from './price-book.ts';

const priceOf = (fields: Partial<PriceSpec>): Price => {
  const price = new PriceBook([{ model: 'm', ...fields }]).find('s', 'm', true, 0);
  assert.ok(price);
  return price;
};

const ASK = { payloadBytes: 1000, messages: 2, maxOutput: 100, images: undefined, spec: {} };
const MILLION = 1_000_000;

describe('the most that an attempt can cost', () => {
  test('is each byte and each overhead at the dearest rate of the input, and max_tokens at that of the output', () => {
    const price = priceOf({ input: 3 * MILLION, cacheWrite: 4 * MILLION, output: 15 * MILLION, request: 7 });
    assert.equal(boundOf(price, ASK), 4 * (1000 + 2 * 16 + 1024) + 15 * 100 + 7);
    const other = priceOf({ input: MILLION, messageOverhead: 3, requestOverhead: 5, reasoning: 2 * MILLION });
    assert.equal(boundOf(other, ASK), 1000 + 2 * 3 + 5 + 2 * 100);
  });

  test('has the tokens and the price of each image', () => {
    const price = priceOf({ input: MILLION, imageTokens: 500, image: 30, requestOverhead: 0 });
    assert.equal(boundOf(price, { ...ASK, messages: 0, images: 2 }), 1000 + 2 * 500 + 2 * 30);
  });

  test('is unknown where something that costs money has no bound', () => {
    const paid = priceOf({ input: MILLION, output: MILLION });
    assert.equal(boundOf(paid, { ...ASK, maxOutput: undefined }), undefined, 'no max_tokens');
    assert.equal(boundOf(paid, { ...ASK, images: 1 }), undefined, 'an image of any size');
    assert.equal(boundOf(priceOf({ second: 5 }), ASK), undefined, 'no timeout');
    assert.equal(boundOf(paid, { ...ASK, maxOutput: 2 ** 60 }), undefined, 'more than can be counted');
  });

  test('is known where what has no bound costs nothing', () => {
    const free = { ...ASK, maxOutput: undefined, images: 1 };
    assert.equal(boundOf(priceOf({ request: 9 }), free), 9);
    assert.equal(boundOf(priceOf({ image: 9 }), free), 9);
    assert.equal(boundOf(priceOf({ second: 2000 }), { ...free, spec: { timeout_ms: 1500 } }), 3000);
    assert.equal(boundOf(priceOf({ second: 2000 }), free, 500), 1000, 'the timeout of the seat');
  });

  test('is never less than the cost of any use within it', () => {
    const rate = fc.integer({ min: 0, max: 1e9 });
    const prices = fc.record({
      input: rate,
      cacheRead: rate,
      cacheWrite: rate,
      output: rate,
      reasoning: rate,
      image: rate,
      request: rate,
      second: rate,
      batchPercent: fc.integer({ min: 0, max: 100 }),
      messageOverhead: fc.nat(100),
      requestOverhead: fc.nat(5000),
      imageTokens: fc.nat(5000),
    });
    const asks = fc.record({
      payloadBytes: fc.nat(1e6),
      messages: fc.nat(100),
      maxOutput: fc.nat(1e6),
      images: fc.nat(10),
      spec: fc.record({ timeout_ms: fc.nat(1e7) }),
    });
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const shares = fc.tuple(share, share, share, share, share);
    fc.assert(
      fc.property(prices, asks, shares, (fields, ask, [ofInput, ofRead, ofWrite, ofOutput, ofReasoning]) => {
        const price = priceOf(fields);
        const most =
          ask.payloadBytes +
          ask.messages * fields.messageOverhead +
          fields.requestOverhead +
          ask.images * fields.imageTokens;
        const prompt = Math.floor(most * ofInput);
        const cacheRead = Math.floor(prompt * ofRead);
        const cacheWrite = Math.floor((prompt - cacheRead) * ofWrite);
        const completion = Math.floor(ask.maxOutput * ofOutput);
        const reasoning = Math.floor(completion * ofReasoning);
        const counts = {
          input: prompt - cacheRead - cacheWrite,
          cacheRead,
          cacheWrite,
          output: completion - reasoning,
          reasoning,
        };
        const bound = boundOf(price, ask);
        const cost = costOf(price.rates, counts, { images: ask.images, ms: ask.spec.timeout_ms });
        assert.ok(bound !== undefined && cost <= bound, `${cost} > ${bound}`);
      }),
    );
  });
});

describe('what an attempt is likely to cost', () => {
  test('is the estimate of its tokens, with max_tokens as output', () => {
    const price = priceOf({ input: MILLION, output: 10 * MILLION });
    assert.equal(estimateOf(price, { ...ASK, tokens: 350 }), 250 + 1000);
    assert.equal(estimateOf(price, { ...ASK, maxOutput: undefined, tokens: 356 }), 100 + 2560);
    assert.equal(estimateOf(price, { ...ASK, tokens: undefined }), 250 + 1000);
  });

  test('is known for every job', () => {
    const price = priceOf({ input: MILLION, output: MILLION, image: 5, second: 60 });
    const ask = { payloadBytes: 0, messages: undefined, maxOutput: undefined, images: 1, tokens: undefined };
    assert.equal(estimateOf(price, { ...ask, spec: {} }), 1024 + 256 + 5 + 3600);
    assert.equal(estimateOf(price, { ...ask, spec: { timeout_ms: 1000 } }), 1024 + 256 + 5 + 60);
  });
});
