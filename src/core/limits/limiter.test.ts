import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { refusal } from '../../../test/fakes/engine-kit.ts';
import type { SpentRecord } from '../../model/limit-records.ts';
import { type Limit, scopes } from './limit.ts';
import { Limiter, type Reservation } from './limiter.ts';

const AGENT = scopes.agent('acme', 'bob');

function limiterOf(...limits: Limit[]): Limiter {
  const limiter = new Limiter();
  limiter.configure(limits, 0);
  return limiter;
}

const request = (tokens = 0) => ({ requests: 1, tokens });

function reserved(limiter: Limiter, names: readonly string[], tokens: number, now: number): Reservation {
  const answer = limiter.reserve(names, request(tokens), now);
  assert.ok(answer.ok, `refused: ${JSON.stringify(answer)}`);
  return answer.reservation;
}

/** The usage of each scope at one instant. */
const levels = (limiter: Limiter, names: readonly string[], now: number): unknown =>
  names.map((name) => limiter.usage(name, now));

test('the most specific limit applies to a scope; each scope that matches a pattern has its own account', () => {
  const limiter = limiterOf(
    { scope: 'agent:*', concurrency: 1 },
    { scope: 'agent:acme/*', concurrency: 2 },
    { scope: AGENT, concurrency: 3 },
  );
  const most = (name: string): number => {
    let count = 0;
    while (limiter.reserve([name], request(), 0).ok) count++;
    return count;
  };
  const names = ['agent:zoo/a', 'agent:zoo/b', 'agent:acme/x', 'agent:acme/y', AGENT];
  assert.deepEqual(names.map(most), [1, 1, 2, 2, 3]);
});

test('the limits of all scopes apply at once: the refusal names the one with the longest wait, and when to retry', () => {
  const limiter = limiterOf(
    { scope: 'global', requestsPerSec: 1 },
    { scope: 'tenant:*', tokensPerSec: 10, burstTokens: 100 },
    { scope: 'model:*', concurrency: 1 },
    { scope: 'session:*', tokenBudget: 150 },
  );
  const all = ['global', 'tenant:acme', 'model:m', 'session:acme/1'];
  reserved(limiter, all, 100, 0);
  assert.deepEqual(limiter.reserve(all, request(50), 0), {
    ok: false,
    scope: 'tenant:acme',
    what: 'tokens',
    retryAfterMs: 5000,
  });
  assert.deepEqual(limiter.reserve(all, request(0), 5000), {
    ok: false,
    scope: 'model:m',
    what: 'concurrency',
    retryAfterMs: undefined,
  });
  assert.deepEqual(limiter.reserve(all, request(51), 5000), {
    ok: false,
    scope: 'session:acme/1',
    what: 'budget',
    retryAfterMs: undefined,
  });
});

test('over any window at most rate × time + burst is admitted, plus one request that is larger than the burst', () => {
  const steps = fc.array(
    fc.record({ wait: fc.integer({ min: 0, max: 3000 }), tokens: fc.integer({ min: 0, max: 60 }) }),
    { minLength: 1, maxLength: 60, size: 'max' },
  );
  const rates = fc.record({
    rate: fc.integer({ min: 1, max: 40 }),
    burst: fc.integer({ min: 1, max: 40 }),
    requests: fc.double({ min: 0.1, max: 5, noNaN: true }),
  });
  fc.assert(
    fc.property(rates, steps, ({ rate, burst, requests }, arrivals) => {
      const limiter = limiterOf({
        scope: 'agent:*',
        requestsPerSec: requests,
        tokensPerSec: rate,
        burstTokens: burst,
      });
      const admitted: { at: number; tokens: number }[] = [];
      let now = 0;
      for (const { wait, tokens } of arrivals) {
        now += wait;
        if (limiter.reserve([AGENT], request(tokens), now).ok) admitted.push({ at: now, tokens });
      }
      for (let from = 0; from < admitted.length; from++) {
        let tokens = 0;
        let count = 0;
        for (const { at, tokens: more } of admitted.slice(from)) {
          const seconds = (at - admitted[from]!.at) / 1000;
          tokens += more;
          count++;
          assert.ok(tokens <= rate * seconds + burst + Math.max(0, 60 - burst) + 1e-6);
          // The request larger than the burst is the last one: all before it fit.
          assert.ok(tokens - more <= rate * seconds + burst + 1e-6);
          assert.ok(count <= requests * seconds + Math.max(1, requests) + 1e-6);
        }
      }
    }),
  );
});

const LIMITS: Limit[] = [
  { scope: 'global', requestsPerSec: 20, tokensPerSec: 100, burstTokens: 400 },
  { scope: 'tenant:*', requestsPerSec: 5, burstRequests: 8 },
  { scope: 'agent:*', tokensPerSec: 30, burstTokens: 90, concurrency: 3 },
  { scope: 'session:*', tokenBudget: 500 },
];
const CASTS = [
  ['global', 'tenant:a', 'agent:a/x', 'session:a/1'],
  ['global', 'tenant:a', 'agent:a/y'],
  ['global', 'tenant:b', 'agent:b/x', 'session:b/1', 'model:free'],
];
const EVERYBODY = [...new Set(CASTS.flat())];

const move = fc.record({
  wait: fc.integer({ min: 0, max: 2000 }),
  does: fc.constantFrom('reserve', 'reserve', 'reserve', 'settle', 'release'),
  cast: fc.integer({ min: 0, max: 2 }),
  tokens: fc.integer({ min: 0, max: 150 }),
});

test('L1: a refusal takes nothing from any scope, and a reservation takes the same from every scope', () => {
  fc.assert(
    fc.property(fc.array(move, { maxLength: 60, size: 'max' }), (moves) => {
      const limiter = limiterOf(...LIMITS);
      const open: Reservation[] = [];
      let now = 0;
      for (const { wait, does, cast, tokens } of moves) {
        now += wait;
        const names = CASTS[cast]!;
        const before = levels(limiter, EVERYBODY, now) as { running: number }[];
        if (does === 'reserve') {
          const answer = limiter.reserve(names, request(tokens), now);
          const after = levels(limiter, EVERYBODY, now) as { running: number }[];
          if (!answer.ok) assert.deepEqual(after, before);
          else {
            open.push(answer.reservation);
            for (const [at, name] of EVERYBODY.entries()) {
              const taken = names.includes(name) ? 1 : 0;
              assert.equal(after[at]!.running - before[at]!.running, taken);
            }
          }
        } else {
          const reservation = open.pop();
          if (reservation && does === 'settle') limiter.settle(reservation, tokens, now);
          else if (reservation) limiter.release(reservation, now);
        }
      }
    }),
  );
});

test('L2: release undoes a reservation, settle leaves the real use, and a second end changes nothing', () => {
  const used = fc.array(fc.tuple(fc.integer({ min: 0, max: 80 }), fc.integer({ min: 0, max: 200 })), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(used, fc.boolean(), (jobs, released) => {
      const limiter = limiterOf({ ...LIMITS[0]!, burstRequests: 100, burstTokens: 1000, tokenBudget: 5000 });
      const real = jobs.reduce((sum, [, tokens]) => sum + tokens, 0);
      const open = jobs.map(([estimate]) => reserved(limiter, ['global'], estimate, 0));
      for (let again = 0; again < 2; again++) {
        for (const [at, reservation] of open.entries()) {
          if (released) limiter.release(reservation, 0);
          else limiter.settle(reservation, jobs[at]![1], 0);
        }
      }
      assert.deepEqual(
        limiter.usage('global', 0),
        released
          ? { running: 0, spent: 0, requests: 100, tokens: 1000 }
          : { running: 0, spent: real, requests: 100 - jobs.length, tokens: 1000 - real },
      );
    }),
  );
});

test('use beyond the estimate is a debt that must be refilled first', () => {
  const limiter = limiterOf({ scope: 'global', tokensPerSec: 10, burstTokens: 100 });
  limiter.settle(reserved(limiter, ['global'], 50, 0), 300, 0);
  assert.equal(limiter.usage('global', 0).tokens, -200);
  const answer = limiter.reserve(['global'], request(1), 0);
  assert.deepEqual(answer, { ok: false, scope: 'global', what: 'tokens', retryAfterMs: 20_100 });
  assert.ok(limiter.reserve(['global'], request(1), 20_100).ok);
});

test('limits change at run time: levels are kept, clipped to the new burst, and running jobs are counted', () => {
  const limiter = limiterOf({ scope: 'agent:*', tokensPerSec: 1, burstTokens: 100 });
  const first = reserved(limiter, [AGENT, 'model:m'], 40, 0);
  limiter.configure(
    [
      { scope: 'agent:*', tokensPerSec: 1, burstTokens: 1000 },
      { scope: 'model:m', concurrency: 1, tokensPerSec: 5, burstTokens: 50 },
    ],
    0,
  );
  assert.equal(limiter.usage(AGENT, 0).tokens, 60, 'a larger burst is not filled at once');
  assert.equal(limiter.usage('model:m', 0).running, 1, 'a job that ran before the limit came counts');
  assert.equal(limiter.reserve(['model:m'], request(), 0).ok, false);
  limiter.settle(first, 0, 0);
  assert.equal(limiter.usage('model:m', 0).tokens, 50, 'what was not taken is not given back');
  reserved(limiter, ['model:m'], 50, 0);
  limiter.configure([{ scope: 'agent:*', tokensPerSec: 1, burstTokens: 10 }], 0);
  assert.equal(limiter.usage(AGENT, 0).tokens, 10, 'a smaller burst clips');
  limiter.configure([], 0);
  assert.ok(limiter.reserve([AGENT, 'model:m'], request(1e9), 0).ok, 'without limits all is admitted');
});

test('a reservation from before a limit was set is not given back to its bucket', () => {
  const limiter = limiterOf();
  const before = reserved(limiter, ['global'], 50, 0);
  limiter.configure([{ scope: 'global', requestsPerSec: 1, tokensPerSec: 10, burstTokens: 100 }], 1000);
  reserved(limiter, ['global'], 100, 1001);
  limiter.release(before, 1001);
  assert.deepEqual(limiter.usage('global', 1001), { running: 1, spent: undefined, requests: 0, tokens: 0 });
});

test('a scope that is named twice is charged once', () => {
  const limiter = limiterOf({ scope: 'global', tokensPerSec: 1, burstTokens: 100 });
  reserved(limiter, ['global', 'global'], 60, 0);
  assert.deepEqual(limiter.usage('global', 0), {
    running: 1,
    spent: undefined,
    requests: undefined,
    tokens: 40,
  });
});

test('an exhausted budget refuses even a request with an estimate of 0 tokens', () => {
  const limiter = limiterOf({ scope: 'session:*', tokenBudget: 100 });
  limiter.settle(reserved(limiter, ['session:a/1'], 100, 0), 100, 0);
  const answer = limiter.reserve(['session:a/1'], request(0), 1e9);
  assert.deepEqual(answer, { ok: false, scope: 'session:a/1', what: 'budget', retryAfterMs: undefined });
  assert.ok(limiter.reserve(['session:a/2'], request(100), 0).ok);
});

test('invalid limits are refused and change nothing', () => {
  const limiter = limiterOf({ scope: 'global', concurrency: 0 });
  const bad: Limit[][] = [
    [{ scope: 'nobody' }],
    [{ scope: 'agent:bob' }],
    [{ scope: 'tenant:' }],
    [{ scope: 'global', tokensPerSec: -1 }],
    [{ scope: 'global', concurrency: Number.NaN }],
    [{ scope: 'tenant:a' }, { scope: 'tenant:a' }],
  ];
  for (const limits of bad) assert.throws(() => limiter.configure(limits, 0), refusal('INVALID_PARAMS'));
  assert.equal(limiter.reserve(['global'], request(), 0).ok, false);
});

/** What is stored of all scopes after an instant, by scope. */
function stored(limiter: Limiter, at: number): Map<string, SpentRecord> {
  const records = new Map<string, SpentRecord>();
  for (const scope of limiter.dirty) {
    const kept = limiter.kept(scope, at);
    if (kept) records.set(scope, { v: 1, at, ...kept });
  }
  return records;
}

test('L5: after a restart buckets and budgets go on where they were, and live jobs hold their estimates again', () => {
  const limits: Limit[] = [
    { scope: 'global', tokensPerSec: 10, burstTokens: 100, requestsPerSec: 1, burstRequests: 5 },
    { scope: 'session:*', tokenBudget: 1000 },
  ];
  const names = ['global', 'session:a/1'];
  const before = limiterOf(...limits);
  const ended = reserved(before, names, 60, 0);
  const open = reserved(before, names, 30, 0);
  before.admitted(ended);
  before.admitted(open);
  before.settle(ended, 20, 1000);
  assert.deepEqual([before.usage('global', 1000).requests, before.usage('global', 1000).tokens], [4, 60]);
  const records = stored(before, 1000);
  assert.equal(records.get('session:a/1')?.tokens, 20, 'what is still open is not spent');
  const after = new Limiter();
  after.configure(limits, 2000, (scope) => records.get(scope));
  const again = after.restore(names, request(30), 0, 2000);
  assert.deepEqual(
    after.usage('global', 2000),
    { running: 1, spent: undefined, requests: 5, tokens: 70 },
    'a second has passed, and the open job was taken before',
  );
  assert.equal(after.usage('session:a/1', 2000).spent, 50);
  after.release(again, 2000);
  assert.equal(after.usage('session:a/1', 2000).spent, 20);
  assert.equal(after.usage('global', 2000).tokens, 100);
});

test('a token budget with a window starts anew; what is open counts in the new window', () => {
  const limiter = limiterOf({ scope: 'global', tokenBudget: 100, window: 'hour' });
  limiter.settle(reserved(limiter, ['global'], 50, 0), 50, 0);
  reserved(limiter, ['global'], 30, 0);
  const late = limiter.reserve(['global'], request(40), 600_000);
  assert.deepEqual(late, { ok: false, scope: 'global', what: 'budget', retryAfterMs: 3_000_000 });
  assert.equal(limiter.reserve(['global'], request(101), 600_000).ok, false);
  assert.equal(
    limiter.reserve(['global'], request(71), 3_600_000).ok,
    false,
    'more than is left beside what is open',
  );
  assert.ok(limiter.reserve(['global'], request(70), 3_600_000).ok);
});

test('a refusal for another reason leaves nothing to store', () => {
  const limiter = limiterOf({ scope: 'global', tokenBudget: 100 });
  limiter.undo(reserved(limiter, ['global'], 50, 0), 0);
  assert.equal(limiter.dirty.size, 0);
  limiter.admitted(reserved(limiter, ['global'], 10, 0));
  limiter.undo(reserved(limiter, ['global'], 50, 0), 0);
  assert.deepEqual([...limiter.dirty], ['global']);
});

test('a restored job is never refused, and takes from no bucket again', () => {
  const limiter = limiterOf({ scope: 'global', concurrency: 1, tokensPerSec: 1, burstTokens: 10 });
  const open = [
    limiter.restore(['global'], request(10), 0, 0),
    limiter.restore(['global'], request(10), 0, 0),
  ];
  assert.deepEqual(limiter.usage('global', 0), {
    running: 2,
    spent: undefined,
    requests: undefined,
    tokens: 10,
  });
  for (const reservation of open) limiter.release(reservation, 0);
  assert.equal(limiter.usage('global', 0).tokens, 10);
});

test('L3: accounts that are full again are dropped as new ones are added', () => {
  const limiter = limiterOf({ scope: 'agent:*', requestsPerSec: 1 });
  let most = 0;
  for (let n = 0; n < 20_000; n++) {
    limiter.settle(reserved(limiter, [`agent:a/${n}`, `tenant:${n}`], 0, n), 0, n);
    most = Math.max(most, limiter.size);
  }
  assert.ok(most < 4000, `${most} accounts at once; 1000 are not full at a time`);
});

test('L3: beyond maxAccounts the new scopes of a tenant share one account: stricter, never laxer, and only until there is room', () => {
  const limiter = new Limiter(10);
  limiter.configure(
    [
      { scope: 'session:*', tokenBudget: 100 },
      { scope: 'global', concurrency: 50 },
    ],
    0,
  );
  for (let n = 0; n < 10; n++) limiter.settle(reserved(limiter, [`session:a/${n}`], 60, 0), 60, 0);
  const shared = reserved(limiter, ['global', 'session:a/late', 'tenant:new'], 60, 0);
  assert.deepEqual(shared.accounts, ['global', 'session:a/*'], 'a limit that names its scope has its own');
  assert.equal(limiter.reserve(['session:a/later'], request(60), 0).ok, false);
  assert.ok(limiter.size <= 12);
  const other = reserved(limiter, ['session:b/late'], 60, 0);
  assert.deepEqual(
    other.accounts,
    ['session:b/*'],
    'another tenant is not charged for what this one has filled',
  );
  limiter.settle(other, 60, 0);
  limiter.settle(shared, 60, 0);
  for (let n = 0; n < 10; n++) limiter.forget(`session:a/${n}`);
  assert.deepEqual(reserved(limiter, ['session:a/later'], 60, 0).accounts, ['session:a/later']);
});

test('near() yields what is used to a share of its limit: buckets refill meanwhile, and budgets do not', () => {
  const limiter = limiterOf(
    { scope: 'global', concurrency: 10 },
    { scope: 'tenant:*', requestsPerSec: 1, burstRequests: 4 },
    { scope: 'model:m', tokenBudget: 100 },
  );
  const near = (now: number): unknown => [...limiter.near(0.75, now)];
  assert.deepEqual(near(0), []);
  for (let n = 0; n < 3; n++) reserved(limiter, ['global', 'tenant:acme', 'model:m'], 30, 0);
  assert.deepEqual(near(0), [
    { scope: 'tenant:acme', what: 'requests', used: 3, of: 4 },
    { scope: 'model:m', what: 'budget', used: 90, of: 100 },
  ]);
  assert.deepEqual(near(2000), [{ scope: 'model:m', what: 'budget', used: 90, of: 100 }]);
});
