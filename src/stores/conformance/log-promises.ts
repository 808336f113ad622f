/** Promises about appended changes: their numbers, when they are reported durable, and what a restart recovers. */
import assert from 'node:assert/strict';
import type { EngineSettings } from '../../core/settings.ts';
import type { State } from '../../core/state/state.ts';
import { stableHash } from '../../kit/hash.ts';
import { NOW, Opened, type RecordedEvents, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const LOG_PROMISES: readonly StorePromise[] = [
  ['appends are numbered in order, from 1, without a gap', numbered],
  ['no change is reported durable before it is, nor before it was appended', neverEarly],
  ['close waits for every appended change, and the next opening continues after it', continues],
  ['checkpoints do not change what is recovered', checkpoints],
  ['the owner stays the same and the epoch grows by one at each opening', epochs],
  ['open returns the instant of the last commit, also if an earlier one was later', lastInstant],
  ['close can be called twice', closesTwice],
  ['the failure cache keeps its size and its order, also across checkpoints', failureOrder],
];

async function numbered(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  for (let n = 1; n <= 200; n++) {
    opened.submit(`j${n}`);
    assert.equal(opened.engine.state.seq, n, 'one change, one number');
    if (n % 50 === 0) await opened.settled();
  }
  assert.deepEqual(
    opened.durables,
    [...opened.durables].sort((a, b) => a - b),
  );
  const again = await reopen(fixture, opened);
  const order = [...again.engine.state.admitted.newestFirst()].map(({ ask }) => ask.n);
  assert.deepEqual(
    order,
    Array.from({ length: 200 }, (_, at) => 200 - at),
  );
  await again.close();
}

async function neverEarly(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const release = fixture.hold();
  opened.submit('a');
  await fixture.turns(20);
  assert.deepEqual(opened.durables, []);
  release();
  opened.submit('b');
  await opened.settled();
  assert.equal(opened.durable, 2);
  await opened.close();
}

async function continues(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  for (let round = 1; round <= 5; round++) {
    opened.submit(`j${round}`);
    // The test does not wait for the flush: close must.
    await opened.store.close();
    opened = await Opened.on(fixture);
    assert.equal(opened.engine.state.seq, round);
    assert.equal(opened.engine.state.jobs.size, round);
  }
  await opened.close();
}

async function checkpoints(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 20; n++)
      opened.submit(`j${round}-${n}`, { session_id: `s${n % 3}`, key: `k${round}-${n}` });
    opened.finish(`done${round}`);
    opened.step({ type: 'cancel', uid: `j${round}-3`, by: 'test' });
    await opened.handedOver();
    await opened.store.checkpoint();
    await opened.store.checkpoint();
    opened.submit(`after${round}`);
    await opened.settled();
    const { now } = opened;
    const before = recordsText(opened.engine.state, now);
    opened = await reopen(fixture, opened);
    assert.equal(recordsText(opened.engine.state, now), before);
  }
  await opened.close();
}

async function epochs(fixture: StoreFixture): Promise<void> {
  for (let epoch = 1; epoch <= 4; epoch++) {
    const opened = await Opened.on(fixture);
    opened.step({ type: 'open', owner: `made at opening ${epoch}` });
    const { brain } = opened.engine.state;
    assert.deepEqual([brain?.owner, brain?.epoch], ['made at opening 1', epoch]);
    if (epoch === 2) {
      await opened.settled();
      await opened.store.checkpoint();
    }
    await opened.close();
  }
}

async function lastInstant(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  assert.equal(opened.committedAt, 0);
  opened.now = NOW + 5000;
  opened.submit('a');
  opened = await reopen(fixture, opened);
  assert.equal(opened.committedAt, NOW + 5000);
  await opened.store.checkpoint();
  opened = await reopen(fixture, opened);
  assert.equal(opened.committedAt, NOW + 5000);
  opened.now = NOW - 5000;
  opened.submit('b');
  opened = await reopen(fixture, opened);
  assert.equal(opened.committedAt, NOW - 5000);
  await opened.store.checkpoint();
  opened = await reopen(fixture, opened);
  assert.equal(opened.committedAt, NOW - 5000);
  await opened.close();
}

async function closesTwice(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  opened.submit('a');
  await Promise.all([opened.store.close(), opened.store.close()]);
  await opened.store.close();
  const again = await Opened.on(fixture);
  assert.equal(again.engine.state.jobs.size, 1);
  await again.close();
}

async function failureOrder(fixture: StoreFixture): Promise<void> {
  const settings = { failureCacheSize: 2 };
  let opened = await Opened.on(fixture, settings);
  for (const [n, expected] of [['k1'], ['k1', 'k2'], ['k2', 'k3'], ['k3', 'k4']].entries()) {
    opened.fail(`j${n}`, { key: `k${n + 1}` });
    await opened.handedOver();
    await opened.store.checkpoint();
    opened = await reopen(fixture, opened, settings);
    assert.deepEqual(
      [...opened.engine.state.failures.keys()],
      expected.map((key) => `default~${key}`),
    );
  }
  await opened.close();
}

/** Replays recorded events on a store, with checkpoints and restarts: each restart recovers the state before it. */
export async function replays(
  fixture: StoreFixture,
  recording: RecordedEvents,
  settings: Partial<EngineSettings>,
): Promise<void> {
  let opened = await Opened.on(fixture, settings);
  for (const [at, { event, now }] of recording.entries()) {
    opened.step(event, now);
    // The intervals differ, so that checkpoints and restarts meet many states.
    if (at % 40 === 39) await opened.settled();
    if (at % 80 === 79) await opened.store.checkpoint();
    if (at % 120 !== 119) continue;
    await opened.handedOver();
    const { now: last } = opened;
    const before = recordsText(opened.engine.state, last);
    opened = await reopen(fixture, opened, settings);
    assert.equal(recordsText(opened.engine.state, last), before, `after event ${at}`);
    opened.now = last;
  }
  await opened.handedOver();
  const { now } = opened;
  const before = recordsText(opened.engine.state, now);
  opened = await reopen(fixture, opened, settings);
  assert.equal(recordsText(opened.engine.state, now), before);
  await opened.close();
}

/**
 * All records as one text. Failures and jobs keep their order, since it decides which failure is dropped first and which
 * job is newest. Failures that are over at `now` are left out: a store may drop them.
 */
function recordsText(state: State, now: number): string {
  const failures = [...state.failures].filter(([, { until }]) => until > now);
  const jobs = [...state.admitted.newestFirst()].map(({ uid, ask, job, open, past, seq }) => {
    return stableHash([uid, ask, job, open ?? null, past ?? [], seq]);
  });
  const leases = [...state.leases.all()].map(({ id, record }) => [id, record]).sort();
  return JSON.stringify([state.seq, state.brain, failures, leases, state.counts, jobs]);
}
