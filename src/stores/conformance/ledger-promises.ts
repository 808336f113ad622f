/** Promises about the ledger: every closed attempt is charged once, for as long as charges are kept. */
import assert from 'node:assert/strict';
import { keyOf, type LedgerKey, type LedgerSum } from '../../core/ports/ledger.ts';
import type { JobBundle } from '../../core/ports/store.ts';
import type { EngineSettings } from '../../core/settings.ts';
import { bundleOf } from '../../core/state/job-entry.ts';
import { type Charge, chargesOf } from '../../model/charge.ts';
import { PAST_ATTEMPTS, tokenOf } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { NOW, Opened, reopen, type StoreFixture, type SubmissionFields } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const LEDGER_PROMISES: readonly StorePromise[] = [
  ['every attempt that used something is charged when it is closed, also of a job that goes on', charged],
  ['all attempts of a job are charged, each once, also those that its record no longer lists', manyTries],
  ['a charge is in the ledger once, also where close interrupts its hand-over', cutShort],
  ['an answer includes every change that was durable when the question was asked', upToDate],
  ['the attempts of a job that was redriven are charged once', redriven],
  ['the charges of a job that is redriven after a checkpoint are as they were', redrivenSince],
  ['sums by every key are the sums of the charges in that time and tenant', sums],
  ['more groups than asked for are refused, not cut', tooMany],
  ['a page after page passes all charges in the order of settlement, without a gap or a repeat', pages],
  ['a purge of jobs changes no sum; charges are dropped by their own age, the oldest first', kept],
];

const ALL = { from: 0, to: Number.MAX_SAFE_INTEGER };
/** The fake backend has this price whatever the model; each count has a rate of its own. */
const PRICED: Partial<EngineSettings> = {
  prices: [{ model: 'm', input: 1_000_000, cacheRead: 2_000_000, output: 3_000_000, request: 7 }],
};

const USAGE = { input: 10, cacheRead: 5, cacheWrite: 0, output: 3, reasoning: 2, decodeMs: 0 };
const FAILED = { code: 'EXECUTION_FAILED', message: 'no', retriable: true } as const;

/** Ends the open attempt of a job after a second of brain time. */
function endTry(opened: Opened, id: string, ok: boolean, tenant?: string): void {
  const { uid, open } = opened.job(id, tenant);
  const outcome = ok ? { ok, result: '"done"', usage: USAGE } : { ok, error: FAILED, usage: USAGE };
  opened.step({ type: 'outcome', token: tokenOf(uid, open?.n ?? 0), outcome } as never, opened.now + 1000);
}

const RUNS: SubmissionFields = { model: 'm', max_tries: 100 };

function start(opened: Opened, id: string, fields: SubmissionFields = {}): void {
  opened.backend();
  opened.submit(id, { ...RUNS, ...fields });
}

/** Lets the job fail so often; its retries wait an hour at most. */
function failTimes(opened: Opened, id: string, times: number): void {
  for (let n = 0; n < times; n++) {
    endTry(opened, id, false);
    opened.step({ type: 'tick' }, opened.now + 3_600_000);
  }
}

const tokensOf = (charges: readonly Charge[]): string[] => charges.map(({ token }) => token).sort();

async function all({ store }: Opened): Promise<Charge[]> {
  return store.ledger.page(ALL, undefined, 1000);
}

async function charged(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture, PRICED);
  start(opened, 'open');
  start(opened, 'done', { tags: { a: 'x' }, session_id: 's', agent: 'ann' });
  start(opened, 'stopped');
  failTimes(opened, 'open', 2);
  endTry(opened, 'done', true);
  opened.step({ type: 'cancel', uid: 'stopped', by: 'test' });
  endTry(opened, 'stopped', false);
  const entries = ['open', 'done', 'stopped'].map((id) => opened.job(id));
  const expected = entries.flatMap((entry) => {
    const { uid, ask, attempts } = bundleOf(entry);
    return [...chargesOf(uid, ask, attempts)];
  });
  await opened.handedOver();
  for (const round of ['written', 'reopened']) {
    const found = await all(opened);
    assert.deepEqual(tokensOf(found), ['done:1', 'open:1', 'open:2', 'stopped:1'], round);
    for (const charge of expected)
      assert.deepEqual(
        found.find(({ token }) => token === charge.token),
        charge,
        round,
      );
    assert.ok(
      found.every(({ cost, basis }) => cost > 7 && basis === 'told'),
      round,
    );
    opened = await reopen(fixture, opened, PRICED);
  }
  await opened.close();
}

async function manyTries(fixture: StoreFixture): Promise<void> {
  const times = 2 * PAST_ATTEMPTS + 3;
  let opened = await Opened.on(fixture);
  start(opened, 'often');
  failTimes(opened, 'often', times);
  await opened.settled();
  await opened.store.checkpoint();
  const expected = Array.from({ length: times }, (_, at) => `often:${at + 1}`).sort();
  for (const round of ['written', 'reopened', 'again']) {
    assert.deepEqual(tokensOf(await all(opened)), expected, round);
    opened = await reopen(fixture, opened);
  }
  await opened.close();
}

async function cutShort(fixture: StoreFixture): Promise<void> {
  const expected: string[] = [];
  let opened = await Opened.on(fixture);
  for (let round = 0; round < 4; round++) {
    opened.backend();
    start(opened, `j${round}`);
    // More tries than a record lists, so that only the log has the first of them.
    failTimes(opened, `j${round}`, PAST_ATTEMPTS + 2);
    for (let n = 1; n <= PAST_ATTEMPTS + 2; n++) expected.push(`j${round}:${n}`);
    if (round % 2 === 0) await opened.settled();
    if (round === 2) await opened.store.checkpoint();
    await opened.store.close();
    opened = await Opened.on(fixture);
    assert.deepEqual(tokensOf(await all(opened)), expected.sort());
  }
  await opened.close();
}

async function upToDate(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (let n = 1; n <= 5; n++) {
    start(opened, `j${n}`);
    endTry(opened, `j${n}`, true);
    await opened.settled();
    const [sum] = await opened.store.ledger.sums(ALL, [], 1);
    assert.equal(sum?.attempts, n);
  }
  await opened.close();
}

async function redriven(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  start(opened, 'j', { max_tries: 1 });
  endTry(opened, 'j', false);
  await opened.handedOver();
  const bundle = await opened.store.history.get('j');
  assert.ok(bundle && isTerminal(bundle.job.state));
  opened.step({ type: 'redrive', uid: 'j', by: 'test', known: bundle } as never);
  endTry(opened, 'j', true);
  await opened.handedOver();
  for (const round of ['written', 'reopened']) {
    assert.deepEqual(tokensOf(await all(opened)), ['j:1', 'j:2'], round);
    opened = await reopen(fixture, opened);
  }
  await opened.close();
}

/**
 * The job `live` is redriven in memory, the job `evicted` after it has left it. Each makes more tries than its record lists,
 * both before its redrive and after it.
 */
async function redrivenSince(fixture: StoreFixture): Promise<void> {
  const times = PAST_ATTEMPTS + 2;
  const fields = { max_tries: times, tags: { team: 'red' } };
  let opened = await Opened.on(fixture, PRICED);
  start(opened, 'evicted', fields);
  failTimes(opened, 'evicted', times);
  await opened.settled();
  await opened.store.checkpoint();
  await opened.handedOver();
  const known = (await opened.store.history.get('evicted')) as JobBundle;
  opened.offers = false;
  start(opened, 'live', fields);
  failTimes(opened, 'live', times);
  await opened.settled();
  await opened.store.checkpoint();
  const before = new Map((await all(opened)).map((charge) => [charge.token, charge]));
  assert.equal(before.size, 2 * times);
  for (const id of ['evicted', 'live']) {
    opened.step({ type: 'redrive', uid: id, by: 'test', known: id === 'evicted' ? known : undefined });
    failTimes(opened, id, times);
  }
  for (const round of ['written', 'cut off', 'reopened']) {
    await opened.settled();
    const found = await all(opened);
    assert.equal(found.length, 4 * times, round);
    for (const charge of found) assert.deepEqual(charge, before.get(charge.token) ?? charge, round);
    for (const charge of found) before.set(charge.token, charge);
    opened = await reopen(fixture, opened, PRICED);
  }
  await opened.close();
}

/** Charges that differ in every key. */
async function variety(fixture: StoreFixture): Promise<Opened> {
  const opened = await Opened.on(fixture, PRICED);
  const jobs: SubmissionFields[] = [
    { agent: 'ann', session_id: 's1', tags: { team: 'a b"c', 'x.y': '1' } },
    { agent: 'Ann', tags: { team: 'red' }, submittedBy: 'key-1' },
    { agent: 'ann', session_id: 's1', tenant: 'acme', tags: { 'x.y': '2' } },
    { agent: 'bob', model: 'unpriced', tenant: 'acme' },
    { agent: 'bob', session_id: 'ü🦊' },
  ];
  for (const [n, fields] of jobs.entries()) {
    start(opened, `j${n}`, fields);
    endTry(opened, `j${n}`, n % 2 === 0, fields.tenant);
  }
  await opened.settled();
  return opened;
}

function sumsOf(charges: readonly Charge[], by: readonly LedgerKey[]): Map<string, [number, number, number]> {
  const found = new Map<string, [number, number, number]>();
  for (const charge of charges) {
    const name = JSON.stringify(by.map((key) => keyOf(charge, key)));
    const [attempts, cost, output] = found.get(name) ?? [0, 0, 0];
    found.set(name, [attempts + 1, cost + charge.cost, output + charge.output]);
  }
  return found;
}

const inMap = (sums: readonly LedgerSum[]): Map<string, [number, number, number]> =>
  new Map(sums.map(({ group, attempts, cost, output }) => [JSON.stringify(group), [attempts, cost, output]]));

async function sums(fixture: StoreFixture): Promise<void> {
  const opened = await variety(fixture);
  const charges = await all(opened);
  assert.equal(charges.length, 5);
  const keys: LedgerKey[][] = [
    [],
    ...(['tenant', 'principal', 'token', 'model', 'seat', 'route', 'session'] as const).map((key) => [key]),
    ['tag:team'],
    ['tag:x.y'],
    ['tag:nothing'],
    ['principal', 'tag:team', 'session'],
  ];
  const [first, last] = [charges[1]?.at ?? 0, charges[4]?.at ?? 0];
  for (const window of [ALL, { from: first, to: last }, { ...ALL, tenant: 'acme' }, { from: 0, to: 1 }]) {
    const asked = charges.filter(
      ({ at, tenant }) =>
        at >= window.from && at < window.to && (!('tenant' in window) || tenant === window.tenant),
    );
    for (const by of keys) {
      const found = await opened.store.ledger.sums(window, by, 100);
      assert.deepEqual(inMap(found), sumsOf(asked, by), JSON.stringify([window, by]));
      const order = found.map(({ group }) => JSON.stringify(group));
      assert.equal(new Set(order).size, order.length, 'each group once');
    }
  }
  const [total] = await opened.store.ledger.sums(ALL, [], 1);
  assert.equal(total?.unpriced, 1);
  await opened.close();
}

async function tooMany(fixture: StoreFixture): Promise<void> {
  const opened = await variety(fixture);
  assert.equal((await opened.store.ledger.sums(ALL, ['principal'], 3)).length, 3);
  await assert.rejects(opened.store.ledger.sums(ALL, ['principal'], 2), { code: 'INVALID_PARAMS' });
  await opened.close();
}

async function pages(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (let n = 0; n < 7; n++) start(opened, `j${n}`);
  // Two of them at each instant: the token decides between them.
  for (let n = 6; n >= 0; n--) {
    const { now } = opened;
    endTry(opened, `j${n}`, true);
    if (n % 2 === 0) opened.now = now;
  }
  await opened.settled();
  const seen: Charge[] = [];
  for (;;) {
    const page = await opened.store.ledger.page(ALL, seen.at(-1), 2);
    if (page.length === 0) break;
    seen.push(...page);
  }
  const places = seen.map(({ at, token }) => `${at} ${token}`);
  assert.equal(places.length, 7);
  assert.deepEqual(places, [...places].sort());
  await opened.close();
}

async function kept(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (let n = 1; n <= 4; n++) {
    opened.now = NOW + n * 10_000;
    start(opened, `j${n}`);
    endTry(opened, `j${n}`, true);
  }
  await opened.handedOver();
  const { store } = opened;
  const before = await store.ledger.sums(ALL, ['principal'], 10);
  await store.purge(NOW + 100_000, 100, NOW + 100_000);
  assert.equal(await store.history.count(), 0);
  assert.deepEqual(await store.ledger.sums(ALL, ['principal'], 10), before);
  assert.equal(await store.dropCharges(NOW + 35_000, 2), 2);
  assert.deepEqual(tokensOf(await all(opened)), ['j3:1', 'j4:1']);
  assert.equal(await store.dropCharges(NOW + 35_000, 2), 1);
  assert.equal(await store.dropCharges(NOW + 35_000, 2), 0);
  const again = await reopen(fixture, opened);
  assert.deepEqual(tokensOf(await all(again)), ['j4:1'], 'what was dropped does not come back');
  await again.close();
}
