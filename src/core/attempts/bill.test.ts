import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, FAILED, START } from '../../../test/fakes/engine-kit.ts';
import { errorInfo } from '../../model/errors.ts';
import type { Bill } from '../../model/price.ts';
import type { TokenCounts } from '../../model/usage.ts';
import type { Outcome } from '../ports/backend.ts';

const MILLION = 1_000_000;
const counts = (input: number, output: number): TokenCounts => ({
  input,
  output,
  cacheRead: 0,
  cacheWrite: 0,
  reasoning: 0,
});

/** A job for 1000 bytes and 100 tokens at most on a seat with a price, and a hard budget for it. */
function running(): EngineKit {
  const price = { model: 'm', input: MILLION, output: 10 * MILLION, messageOverhead: 0, requestOverhead: 0 };
  const limits = [{ scope: 'global', costBudget: 1e9, window: 'total', hard: true }];
  const kit = new EngineKit({ prices: [price], limits: limits as never });
  kit.backend('s', { models: ['m'], paid: true });
  kit.submit('a', { model: 'm', payloadBytes: 1000, messages: 1, maxOutput: 100, max_tries: 1 });
  kit.accept('a');
  return kit;
}

const RESERVED = 1000 + 10 * 100;

function billAfter(outcome: Outcome): Pick<Bill, 'cost' | 'basis'> {
  const kit = running();
  kit.now = START + 5;
  kit.end('a', outcome);
  const record = kit.log.findLast(({ change }) => change.kind === 'attempt')?.change.after as { bill: Bill };
  assert.equal(record.bill.reserved, RESERVED);
  return { cost: record.bill.cost, basis: record.bill.basis };
}

describe('the bill of an attempt that has ended', () => {
  const failed = (usage?: object): Outcome => ({ ...FAILED, ...(usage && { usage }) }) as Outcome;
  const TOLD: [string, Outcome, Pick<Bill, 'cost' | 'basis'>][] = [
    ['told', failed(counts(20, 7)), { cost: 90, basis: 'told' }],
    ['told to be nothing', failed(counts(0, 0)), { cost: 0, basis: 'told' }],
    ['not told', failed(), { cost: RESERVED, basis: 'assumed' }],
    ['told in part', failed({ ...counts(20, 1), isPartial: true }), { cost: RESERVED, basis: 'assumed' }],
    [
      'told in part, and more than was reserved',
      failed({ ...counts(20, 1000), isPartial: true }),
      { cost: 10_020, basis: 'told' },
    ],
    [
      'told in part, when it was stopped',
      { ok: 'cancelled', usage: { ...counts(20, 1), isPartial: true } },
      { cost: RESERVED, basis: 'assumed' },
    ],
    [
      'nothing, because it was turned away',
      { ok: 'turned_away', why: 'quota', error: errorInfo('RATE_LIMITED') },
      { cost: 0, basis: 'nothing' },
    ],
  ];
  for (const [what, outcome, expected] of TOLD)
    test(`where the use was ${what}`, () => assert.deepEqual(billAfter(outcome), expected));
});

test('a price per second is bounded by the timeout: what an executor takes longer to stop is no overrun', () => {
  const limits = [{ scope: 'global', costBudget: 1000, hard: true }];
  const kit = new EngineKit({ prices: [{ model: '*', second: 10 }], limits });
  kit.backend('gpu');
  kit.submit('a', { timeout_ms: 60_000 });
  kit.accept('a');
  kit.now += 75_000;
  kit.end('a', { ok: 'cancelled' });
  const spent = kit.engine.state.tables.spent;
  assert.deepEqual([spent.get('global')?.cost, spent.get('seat:gpu')], [600, undefined]);
});
