/** A blob file stays for as long as a job in memory or in the history references it, whatever happened in between. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { askOf } from '../../../test/fakes/folder-maker.ts';
import type { Env } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { BlobRef } from '../../model/body.ts';
import { FRESH_JOB } from '../../model/moves.ts';
import type { AttemptRecord, Change, JobRecord } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { NOW, Opened } from '../conformance/opened.ts';
import { InlineBackground } from './background.ts';
import { BlobUse } from './blob-use.ts';
import { SqliteHistory } from './history/sqlite.ts';
import { JournalStore } from './journal.ts';
import { blobNumber } from './layout.ts';

const inFile = (file: number): BlobRef => ({ file, offset: 0, bytes: 5000, crc: 0 }) as BlobRef;
const ask = (uid: string, file?: number): Change => ({
  kind: 'ask',
  id: uid,
  after: askOf(uid, 1, file === undefined ? {} : { payload: inFile(file) }),
  cause: 'submit',
});
const job = (uid: string, after: Partial<JobRecord>): Change => ({
  kind: 'job',
  id: uid,
  after: { ...FRESH_JOB, ...after },
  cause: 'submit',
});
const attempt = (uid: string, state: AttemptRecord['state']): Change => ({
  kind: 'attempt',
  id: `${uid}:1`,
  after: { v: 3, job: uid, n: 1, state } as AttemptRecord,
  cause: 'submit',
});

/** A BlobUse that has seen these changes, numbered from 1. */
function after(changes: readonly Change[], indexedUpTo = 0): BlobUse {
  const use = new BlobUse();
  for (const [at, change] of changes.entries()) use.changed(change, at + 1);
  use.opened(indexedUpTo);
  return use;
}

test('a payload and a result each count until they are replaced', () => {
  const use = after([ask('a', 1), job('a', { state: 'succeeded', result: inFile(2) }), ask('b', 2)]);
  assert.deepEqual([use.has(1), use.has(2), use.has(3)], [true, true, false]);
  use.changed(job('a', { state: 'queued' }), 4);
  assert.ok(use.has(2), 'b references it too');
  use.changed(ask('b'), 5);
  assert.deepEqual([use.has(1), use.has(2)], [true, false]);
});

test('a composed body counts for every file from the oldest that it needs', () => {
  const composed = { ...inFile(5), since: 3 } as BlobRef;
  const use = after([ask('a'), job('a', { state: 'succeeded', result: composed })]);
  assert.deepEqual(
    [2, 3, 4, 5, 6].map((file) => use.has(file)),
    [false, true, true, true, false],
  );
  use.changed(job('a', { state: 'succeeded', result: inFile(5) }), 3);
  assert.deepEqual(
    [3, 4, 5].map((file) => use.has(file)),
    [false, false, true],
  );
});

test('what a waiting job keeps counts until it keeps something else, or has a result', () => {
  const wait = (file: number) => ({
    wait: { step: 1, state: inFile(file), children: [], needs: 'all', until: 1 } as const,
  });
  const use = after([ask('a'), job('a', { state: 'waiting', ...wait(1) })]);
  use.changed(job('a', { state: 'queued', ...wait(1) }), 3);
  assert.ok(use.has(1), 'the next attempt goes on with it');
  use.changed(job('a', { state: 'waiting', ...wait(2) }), 4);
  assert.deepEqual([use.has(1), use.has(2)], [false, true]);
  use.changed(job('a', { state: 'succeeded', result: inFile(3) }), 5);
  assert.deepEqual([use.has(2), use.has(3)], [false, true]);
});

test('the messages of a session count until they are replaced, or the session has left memory', () => {
  const session = (file: number | undefined): Change =>
    ({
      kind: 'session',
      id: 'default~s',
      after: { v: 2, id: 's', ...(file !== undefined && { messages: { ref: inFile(file) } }) },
      cause: 'used',
    }) as unknown as Change;
  const use = after([session(1)]);
  use.session('default~t', session(1).after as SessionRecord);
  use.changed(session(2), 2);
  assert.deepEqual([use.has(1), use.has(2)], [true, true], 'another session refers to the first');
  use.changed({ ...session(2), after: null } as Change, 3);
  use.session('default~t', null);
  assert.deepEqual([use.has(1), use.has(2)], [false, false]);
});

test('an ended job counts until it has certainly left the memory of the brain', () => {
  const use = after([ask('a', 1), job('a', { state: 'dead' })]);
  use.sweep();
  use.sweep();
  use.indexed([{ uid: 'a', seq: 2 }]);
  use.sweep();
  assert.ok(use.has(1), 'the brain may not have handled the report yet');
  use.sweep();
  assert.ok(!use.has(1));
});

test('a job that was redriven before the brain handled the report that it is indexed still counts', () => {
  const use = after([ask('a', 1), job('a', { state: 'dead' })]);
  use.indexed([{ uid: 'a', seq: 2 }]);
  use.changed(job('a', { state: 'queued', redrivenAt: 1 }), 3);
  for (let sweep = 0; sweep < 4; sweep++) use.sweep();
  assert.ok(use.has(1));
  use.changed(job('a', { state: 'dead' }), 4);
  use.indexed([{ uid: 'a', seq: 2 }]);
  for (let sweep = 0; sweep < 4; sweep++) use.sweep();
  assert.ok(use.has(1), 'the history holds an earlier end of the job');
});

test('a job that was redriven out of the history counts again', () => {
  const use = after([ask('a', 1), job('a', { state: 'dead' })]);
  use.indexed([{ uid: 'a', seq: 2 }]);
  use.changed(ask('a', 1), 3);
  use.changed(job('a', { state: 'queued', redrivenAt: 1 }), 4);
  for (let sweep = 0; sweep < 4; sweep++) use.sweep();
  assert.ok(use.has(1));
});

test('a recovered job does not count where it has ended and the history holds it', () => {
  const ended = [ask('a', 1), job('a', { state: 'dead' })];
  assert.ok(!after(ended, 2).has(1));
  assert.ok(after(ended, 1).has(1), 'the history does not hold this end yet');
  assert.ok(after([ask('a', 1), job('a', { state: 'running' })], 9).has(1), 'it is live');
  const held = [ask('a', 1), attempt('a', 'accepted'), job('a', { state: 'cancelled' })];
  assert.ok(after(held, 9).has(1), 'its attempt holds a slot');
  assert.ok(!after([...held, attempt('a', 'ended')], 9).has(1));
  // The job references its first blob only after its attempt was seen.
  const resolved = [ask('b'), attempt('b', 'unknown'), job('b', { state: 'succeeded', result: inFile(2) })];
  assert.ok(after(resolved, 9).has(2));
  assert.ok(!after([...resolved, attempt('b', 'abandoned')], 9).has(2));
});

class Kit {
  readonly folder: string;
  /** The monotonic clock. */
  monotonic = 0;
  historyMs = 1e15;
  readonly warnings: string[] = [];
  readonly #env: Env;
  readonly #t: TestContext;

  constructor(t: TestContext, folder: string) {
    this.#t = t;
    this.folder = folder;
    const clock = { now: () => NOW, monotonic: () => this.monotonic };
    this.#env = { ...realEnv(), clock };
  }

  async open(now = NOW): Promise<Opened> {
    const { disk } = this.#env;
    const store = new JournalStore(this.#env, {
      folder: this.folder,
      checkpointIntervalMs: 2 ** 31 - 1,
      historyMs: this.historyMs,
      auditMs: 1e15,
      auditBytes: 2 ** 30,
      background: (paths) => new InlineBackground(disk, paths, new SqliteHistory(paths.history, 'write')),
      onWarning: (warning) => this.warnings.push(warning),
    });
    this.#t.after(() => store.close());
    const opened = new Opened(store);
    opened.now = now;
    await opened.open();
    return opened;
  }

  /** Purges several times, as the brain does, after the grace period of new blob files. */
  async purge({ store }: Opened, endedBefore: number): Promise<void> {
    this.monotonic += 3_600_000;
    for (let round = 0; round < 4; round++) await store.purge(endedBefore, 100, NOW);
  }

  get blobFiles(): number[] {
    return readdirSync(join(this.folder, 'blobs')).map((name) => blobNumber(name) as number);
  }
}

async function kit(t: TestContext): Promise<Kit> {
  const folder = await mkdtemp(join(tmpdir(), 'orchd-blob-use-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return new Kit(t, join(folder, 'data'));
}

for (const when of ['before', 'after'] as const) {
  test(`a body survives the purge of the job's earlier end, with a redrive ${when} the job left memory`, async (t) => {
    const made = await kit(t);
    let opened = await made.open();
    const payload = await opened.store.putBlob('the payload');
    opened.submit('a', { type: 'other', payload, deadline_ms: 10 });
    opened.step({ type: 'tick' }, NOW + 10);
    if (when === 'before') await opened.settled();
    else await opened.handedOver();
    const dead = await opened.store.history.get('a');
    opened.step({ type: 'redrive', uid: 'a', by: 'test', known: dead });
    await opened.settled();
    for (const round of ['as it is', 'reopened', 'from a checkpoint']) {
      await made.purge(opened, NOW + 1e9);
      assert.equal(await opened.store.history.count(), 0, round);
      assert.equal(
        String(await opened.store.readBlob(opened.job('a').ask.payload as BlobRef)),
        'the payload',
        round,
      );
      await opened.store.checkpoint();
      await opened.close();
      opened = await made.open();
    }
    opened.step({ type: 'cancel', uid: 'a', by: 'test' });
    await opened.handedOver();
    await made.purge(opened, 0);
    assert.deepEqual(made.blobFiles, [1], 'the history references it');
    await made.purge(opened, NOW + 1e9);
    assert.deepEqual(made.blobFiles, [], 'nothing references it any more');
    await opened.close();
  });
}

test('a purge after a restart deletes the blob files of the run before it', async (t) => {
  const made = await kit(t);
  let opened = await made.open();
  const result = await opened.store.putBlob('the result');
  opened.finish('a');
  const { uid, token } = opened.submit('b');
  opened.step({ type: 'outcome', token, outcome: { ok: true, result } });
  await opened.handedOver();
  await opened.close();
  opened = await made.open();
  assert.equal(opened.engine.state.jobs.has(uid), false);
  await made.purge(opened, 0);
  assert.deepEqual(made.blobFiles, [1]);
  await made.purge(opened, NOW + 1e9);
  assert.deepEqual(made.blobFiles, []);
  await opened.close();
});

test('an index that is made again has purged jobs only until the next purge, and none whose bodies are gone', async (t) => {
  const made = await kit(t);
  made.historyMs = 1000;
  let opened = await made.open();
  const result = await opened.store.putBlob('the result');
  opened.finish('small');
  const { token } = opened.submit('large');
  opened.step({ type: 'outcome', token, outcome: { ok: true, result } });
  await opened.handedOver();
  await opened.store.checkpoint();
  await opened.close();
  opened = await made.open();
  await made.purge(opened, NOW + 1);
  assert.deepEqual([await opened.store.history.count(), made.blobFiles], [0, []]);
  opened.now = NOW + 2000;
  opened.submit('waits', { type: 'other' });
  await opened.settled();
  await opened.close();
  await rm(join(made.folder, 'history.sqlite'));
  opened = await made.open(NOW + 2000);
  assert.deepEqual(made.warnings, []);
  assert.equal(await opened.store.history.get('large'), undefined);
  assert.equal((await opened.store.history.get('small'))?.uid, 'small');
  await made.purge(opened, NOW + 1000);
  assert.equal(await opened.store.history.count(), 0);
  await opened.close();
});
