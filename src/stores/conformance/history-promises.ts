/** Promises about the history: ended jobs are handed over to it, found in it, and purged from it. */

import assert from 'node:assert/strict';
import type { HistoryQuery } from '../../core/ports/store.ts';
import { bundleOf } from '../../core/state/job-entry.ts';
import { NOW, Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const HISTORY_PROMISES: readonly StorePromise[] = [
  ['an ended job is handed over unchanged and leaves memory for good', handedOver],
  ['no job is handed over before its end is durable', onlyDurable],
  ['an ended job is in memory or in the history, also when close interrupts the hand-over', cutShort],
  ['many concurrent lookups each find their own job with its attempts, or none', manyAtOnce],
  ['every filter finds the matching jobs in the order that was asked for, and no others', filters],
  ['a cursor pages through all jobs, without a gap and without a repeat', cursor],
  ['the jobs between two uids are found, highest first, as many as asked for, and no live ones', between],
  ['a job that was redriven and ended again is in the history once, with its last end', redriven],
  ['a job that was never handed over is not treated as indexed', notOffered],
  [
    'a purge deletes jobs that ended before an instant, and its plan returns their highest attempt number',
    purged,
  ],
  [
    'the plan of a purge names the jobs below others; one that is passed over is kept until its new time is over',
    passedOver,
  ],
];

async function handedOver(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const release = fixture.hold();
  const entry = opened.finish('a', { key: 'k', session_id: 's', labels: undefined, correlationId: 'c' });
  opened.submit('waits', { type: 'other' });
  const bundle = bundleOf(entry);
  assert.equal(await opened.store.history.get('a'), undefined, 'nothing is there yet');
  release();
  for (const round of ['written', 'reopened']) {
    await opened.handedOver();
    assert.deepEqual([...opened.engine.state.jobs.keys()], ['waits'], round);
    assert.deepEqual(await opened.store.history.get('a'), bundle, round);
    assert.equal(await opened.store.history.get('waits'), undefined, round);
    assert.equal(await opened.store.history.count(), 1, round);
    opened = await reopen(fixture, opened);
  }
  await opened.close();
}

async function manyAtOnce(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const bundles = ['a', 'b', 'c'].map((id) => bundleOf(opened.finish(id)));
  opened.submit('waits');
  await opened.handedOver();
  // More ids than a store looks up in one statement.
  const others = Array.from({ length: 1200 }, (_, n) => `other-${n}`);
  const uids = ['c', 'waits', ...others, 'a', 'b', 'a'];
  const found = await Promise.all(uids.map((uid) => opened.store.history.get(uid)));
  const [a, b, c] = bundles;
  assert.deepEqual(found, [c, undefined, ...others.map(() => undefined), a, b, a]);
  await opened.close();
}

async function onlyDurable(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const release = fixture.hold();
  const { uid, seq } = opened.finish('a');
  await fixture.turns(20);
  assert.equal(opened.indexed.size, 0);
  release();
  await opened.handedOver();
  assert.equal(opened.indexed.get(uid), seq);
  await opened.close();
}

async function notOffered(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  opened.finish('offered');
  await opened.handedOver();
  opened.offers = false;
  const bundle = bundleOf(opened.finish('missed'));
  await opened.settled();
  opened.finish('also');
  await opened.settled();
  for (let round = 0; round < 2; round++) {
    await opened.store.checkpoint();
    await opened.store.close();
    opened = await Opened.on(fixture);
    const here = opened.engine.state.jobs.get('missed');
    assert.deepEqual(here ? bundleOf(here) : await opened.store.history.get('missed'), bundle);
  }
  await opened.close();
}

async function cutShort(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  for (let round = 0; round < 5; round++) {
    const bundle = bundleOf(opened.finish(`j${round}`));
    // The test waits neither for the hand-over nor for the flush.
    await opened.store.close();
    opened = await Opened.on(fixture);
    const here = opened.engine.state.jobs.get(bundle.uid);
    assert.deepEqual(here ? bundleOf(here) : await opened.store.history.get(bundle.uid), bundle);
  }
  opened.submit('more', { type: 'other' });
  await opened.handedOver();
  assert.equal(await opened.store.history.count(), 5);
  await opened.close();
}

/** Jobs that differ in every field that a HistoryQuery can filter by. */
async function variety(fixture: StoreFixture): Promise<Opened> {
  const opened = await Opened.on(fixture);
  opened.finish('j1', {
    type: 'run',
    session_id: 's1',
    key: 'k1',
    agent: 'p1',
    batch: 'b1',
    tags: { a: '1', b: '2' },
  });
  opened.finish('j2', {
    type: 'run',
    session_id: 's2',
    key: 'k1',
    agent: 'p2',
    batch: 'b1',
    tags: { a: '1' },
  });
  opened.finish('j3', { type: 'run', session_id: 's1', agent: 'p1', tenant: 'acme', batch: 'b1' });
  opened.submit('j4', {
    type: 'other',
    session_id: 's1',
    key: 'k2',
    agent: 'p1',
    batch: 'b2',
    tags: { a: '1=x%_' },
  });
  opened.step({ type: 'cancel', uid: 'j4', by: 'test' });
  opened.submit('j5', { type: 'other', agent: 'p2', deadline_ms: 10 });
  opened.step({ type: 'tick' }, NOW + 10);
  opened.submit('top', { type: 'other', agent: 'p3' });
  opened.finish('j6', { agent: 'p3', parent_id: 'top' });
  opened.submit('middle', { type: 'other', agent: 'p3', parent_id: 'top' });
  opened.finish('j7', { agent: 'p3', parent_id: 'middle' });
  opened.submit('live', { type: 'other', session_id: 's1', key: 'k1', agent: 'p1' });
  await opened.handedOver();
  return opened;
}

async function filters(fixture: StoreFixture): Promise<void> {
  const opened = await variety(fixture);
  const cases: [query: Partial<HistoryQuery>, ids: string[]][] = [
    [{}, ['j7', 'j6', 'j5', 'j4', 'j2', 'j1']],
    [{ tenant: 'acme' }, ['j3']],
    [{ tenant: 'nobody' }, []],
    [{ states: ['succeeded'] }, ['j7', 'j6', 'j2', 'j1']],
    [{ states: ['cancelled', 'dead'] }, ['j5', 'j4']],
    [{ states: ['queued'] }, []],
    [{ type: 'other' }, ['j5', 'j4']],
    [{ session: 's1' }, ['j4', 'j1']],
    [{ key: 'k1' }, ['j2', 'j1']],
    [{ key: 'K1' }, []],
    [{ principal: 'p1' }, ['j4', 'j1']],
    [{ principal: 'p1', session: 's1', type: 'run', states: ['succeeded'], key: 'k1' }, ['j1']],
    [{ batch: 'b1' }, ['j2', 'j1']],
    [{ batch: 'b1', order: 'oldest first' }, ['j1', 'j2']],
    [{ batch: 'B1' }, []],
    [{ tags: { a: '1' } }, ['j2', 'j1']],
    [{ tags: { b: '2', a: '1' } }, ['j1']],
    [{ tags: { a: '1=x%_' } }, ['j4']],
    [{ tags: { a: '1=x' } }, []],
    [{ tags: { A: '1' } }, []],
    [{ tags: { a: '1' }, batch: 'b2' }, []],
    [{ root: 'top' }, ['j7', 'j6']],
    [{ root: 'top', order: 'oldest first', limit: 1 }, ['j6']],
    [{ root: 'top', tenant: 'acme' }, []],
    [{ root: 'middle' }, []],
    [{ root: 'TOP' }, []],
    [{ order: 'oldest first' }, ['j1', 'j2', 'j4', 'j5', 'j6', 'j7']],
    [{ order: 'oldest first', limit: 2 }, ['j1', 'j2']],
    [{ limit: 2 }, ['j7', 'j6']],
  ];
  for (const [query, ids] of cases) {
    const found = await opened.store.history.list({ tenant: 'default', limit: 100, ...query });
    assert.deepEqual(
      found.map(({ uid }) => uid.split('~').at(-1)),
      ids,
      JSON.stringify(query),
    );
  }
  await opened.close();
}

async function cursor(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (let n = 1; n <= 57; n++) opened.finish(`j${n}`, { session_id: `s${n % 2}`, batch: 'b' });
  await opened.handedOver();
  for (const batch of [undefined, 'b']) await pagesOldestFirst(opened, batch);
  for (const session of [undefined, 's0', 's1']) {
    const seen: string[] = [];
    let before: number | undefined;
    for (;;) {
      const filter = { ...(session !== undefined && { session }), ...(before !== undefined && { before }) };
      const page = await opened.store.history.list({ tenant: 'default', limit: 10, ...filter });
      seen.push(...page.map(({ uid }) => uid));
      if (page.length < 10) break;
      before = page.at(-1)?.ask.n;
    }
    const all = Array.from({ length: 57 }, (_, at) => 57 - at);
    const expected = all.filter((n) => session === undefined || `s${n % 2}` === session);
    assert.deepEqual(
      seen,
      expected.map((n) => `j${n}`),
    );
  }
  await opened.close();
}

async function pagesOldestFirst(opened: Opened, batch: string | undefined): Promise<void> {
  const seen: string[] = [];
  let after: number | undefined;
  for (;;) {
    const filter = { ...(batch !== undefined && { batch }), ...(after !== undefined && { after }) };
    const query = { tenant: 'default', limit: 10, order: 'oldest first', ...filter } as const;
    const page = await opened.store.history.list(query);
    seen.push(...page.map(({ uid }) => uid));
    if (page.length < 10) break;
    after = page.at(-1)?.ask.n;
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 57 }, (_, at) => `j${at + 1}`),
  );
}

async function between(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (const id of ['abc', 'abd1', 'ABD', 'abd', 'abd-2', 'abe']) opened.finish(id);
  opened.finish('x', { tenant: 'abd' });
  opened.submit('abd9', { type: 'other' });
  await opened.handedOver();
  const found = async (from: string, below: string, limit = 100): Promise<string[]> =>
    (await opened.store.history.between(from, below, limit)).map(({ uid }) => uid);
  const [foreign] = await found('abd', 'abe');
  assert.match(foreign ?? '', /~/, 'the job of another tenant lies between them');
  assert.deepEqual(await found('abd', 'abd~'), ['abd1', 'abd-2', 'abd']);
  assert.deepEqual(await found('abd', 'abd~', 2), ['abd1', 'abd-2']);
  assert.deepEqual(await found('abd0', 'abd9'), ['abd1']);
  assert.deepEqual(await found('abf', 'ac'), []);
  const again = await reopen(fixture, opened);
  assert.deepEqual(
    (await again.store.history.between('abd', 'abd~', 100)).map(({ ask }) => ask.id),
    ['abd1', 'abd-2', 'abd'],
  );
  await again.close();
}

async function redriven(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  opened.submit('a', { type: 'other', deadline_ms: 10 });
  opened.step({ type: 'tick' }, NOW + 10);
  await opened.handedOver();
  const dead = await opened.store.history.get('a');
  assert.equal(dead?.job.state, 'dead');
  const known = dead && { ask: dead.ask, job: dead.job };
  opened.step({ type: 'redrive', uid: 'a', by: 'test', known });
  opened.step({ type: 'cancel', uid: 'a', by: 'test' });
  await opened.handedOver();
  const again = await reopen(fixture, opened);
  assert.equal((await again.store.history.get('a'))?.job.state, 'cancelled');
  assert.equal(await again.store.history.count(), 1);
  const listed = await again.store.history.list({ tenant: 'default', limit: 10 });
  assert.deepEqual(
    listed.map(({ job }) => job.state),
    ['cancelled'],
  );
  await again.close();
}

async function purged(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (let n = 1; n <= 10; n++) {
    opened.now = NOW + n * 1000;
    // Only a job whose caller chose the id (`hash` is set) raises attemptFloor: its id may be submitted again.
    opened.finish(`j${n}`, n === 3 ? { hash: 'chosen' } : {});
  }
  await opened.handedOver();
  const { store } = opened;
  assert.deepEqual(await store.planPurge(NOW, 100), { jobs: 0, attemptFloor: 0, below: [] });
  assert.deepEqual(await store.planPurge(NOW + 2500, 100), { jobs: 2, attemptFloor: 0, below: [] });
  assert.deepEqual(await store.planPurge(NOW + 5500, 100), { jobs: 5, attemptFloor: 1, below: [] });
  assert.deepEqual(
    await store.planPurge(NOW + 5500, 2),
    { jobs: 2, attemptFloor: 0, below: [] },
    'the oldest first',
  );
  assert.equal(await store.history.count(), 10, 'a plan changes nothing');
  await store.purge(NOW + 5500, 2, NOW);
  assert.equal(await store.history.count(), 8);
  await store.purge(NOW + 5500, 100, NOW);
  const left = await store.history.list({ tenant: 'default', limit: 100 });
  assert.deepEqual(
    left.map(({ uid }) => uid),
    ['j10', 'j9', 'j8', 'j7', 'j6'],
  );
  const again = await reopen(fixture, opened);
  assert.equal(await again.store.history.get('j3'), undefined);
  assert.equal(again.engine.state.jobs.size, 0, 'purged jobs are not recovered');
  await again.close();
}

async function passedOver(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const at = (ms: number): void => {
    opened.now = NOW + ms;
  };
  at(1000);
  opened.submit('live', { type: 'other' });
  opened.submit('middle', { type: 'other', parent_id: 'live' });
  opened.finish('a', { parent_id: 'middle' });
  at(2000);
  opened.finish('alone');
  opened.submit('top', { type: 'other', tenant: 'acme' });
  at(3000);
  opened.finish('b', { parent_id: 'top', tenant: 'acme' });
  opened.finish('later');
  at(9000);
  opened.step({ type: 'cancel', uid: 'acme~top', by: 'test' });
  await opened.handedOver();
  const a = { uid: 'a', ancestors: ['live', 'middle'], rootEndedAt: undefined };
  const b = { uid: 'acme~b', ancestors: ['acme~top'], rootEndedAt: NOW + 9000 };
  const before = NOW + 5000;
  assert.deepEqual((await opened.store.planPurge(before, 1)).below, [a]);
  const { below, jobs } = await opened.store.planPurge(before, 3);
  assert.deepEqual([below.find(({ uid }) => uid === 'a'), jobs], [a, 3]);
  const whole = (await opened.store.planPurge(before, 100)).below;
  assert.deepEqual([whole.length, whole.find(({ uid }) => uid === b.uid)], [2, b]);
  const kept = [{ uid: 'a', from: NOW + 6000 }];
  await opened.store.purge(before, 2, NOW, kept);
  const ids = async (): Promise<string[]> => {
    const of = (tenant: string) => opened.store.history.list({ tenant, limit: 10 });
    return [...(await of('default')), ...(await of('acme'))].map(({ uid }) => uid);
  };
  assert.deepEqual(await ids(), ['later', 'a', 'acme~b', 'acme~top'], 'only `alone`: the limit counts `a`');
  opened = await reopen(fixture, opened);
  assert.deepEqual((await opened.store.planPurge(before, 100)).below, [b], 'over a restart');
  assert.equal((await opened.store.history.get('a'))?.job.endedAt, NOW + 1000, 'its end is what it was');
  await opened.store.purge(before, 100, NOW, [{ uid: b.uid, from: NOW + 9000 }]);
  assert.deepEqual(await ids(), ['a', 'acme~b', 'acme~top']);
  await opened.store.purge(NOW + 6001, 100, NOW);
  assert.deepEqual(await ids(), ['acme~b', 'acme~top']);
  await opened.store.purge(NOW + 9001, 100, NOW);
  assert.deepEqual(await ids(), []);
  await opened.close();
}
