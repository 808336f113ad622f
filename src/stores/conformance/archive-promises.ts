/** Promises about the archive of sessions: records that have left memory, until somebody drops them. */

import assert from 'node:assert/strict';
import type { SessionArchive } from '../../core/ports/sessions.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const ARCHIVE_PROMISES: readonly StorePromise[] = [
  ['an archived session is read back as it was, field by field, also after a restart', roundTrip],
  ['a session that is archived again replaces the earlier record', replaces],
  ['one tenant finds no archived session of another, whatever their names are', tenantsApart],
  ['a list has the session that was used last first, and its pages have no gap and no repeat', pages],
  ['a dropped session is gone, also after a restart; others stay, and dropping it again is no error', drops],
  ['the oldest sessions of all tenants are found by their last use', oldest],
  ['a store that another one has taken the place of archives nothing', fenced],
];

const session = (id: string, fields: Partial<SessionRecord> = {}): SessionRecord => ({
  v: 3,
  tenant: 'default',
  id,
  createdAt: 1,
  usedAt: 2,
  turns: 3,
  tokensUsed: 4,
  tokenBudget: undefined,
  threads: undefined,
  messages: undefined,
  metadata: undefined,
  ...fields,
});

const idsIn = (records: readonly SessionRecord[]): string[] => records.map(({ id }) => id);

async function roundTrip(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  assert.equal(await opened.store.sessions.isEmpty(), true);
  const records = [
    session('plain'),
    session('full', {
      tokenBudget: 100,
      threads: [{ backend: 'gpu/w-1', thread: 't', heard: 2, hash: 'h' }],
      tokensUsed: Number.MAX_SAFE_INTEGER,
    }),
    session('odd ü🦊 "\\ \n', { tenant: 'other', usedAt: 1_800_000_000_123 }),
    { ...session('more'), title: 'a field of a later version 日本語'.repeat(3000) } as SessionRecord,
  ];
  await opened.store.sessions.put(records);
  for (const round of ['at once', 'after a restart', 'after a checkpoint and a restart']) {
    for (const record of records)
      assert.deepEqual(await opened.store.sessions.get(record.tenant, record.id), record, round);
    assert.equal(await opened.store.sessions.isEmpty(), false);
    assert.equal(await opened.store.sessions.get('default', 'unknown'), undefined);
    if (round !== 'at once') await opened.store.checkpoint();
    opened = await reopen(fixture, opened);
  }
  await opened.close();
}

async function replaces(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const { sessions } = opened.store;
  await sessions.put([session('a', { usedAt: 5 }), session('b', { usedAt: 6 })]);
  await sessions.put([session('a', { usedAt: 7, turns: 9 })]);
  assert.deepEqual(await sessions.get('default', 'a'), session('a', { usedAt: 7, turns: 9 }));
  assert.deepEqual(idsIn(await sessions.list({ tenant: 'default', limit: 10 })), ['a', 'b']);
  await opened.close();
}

async function tenantsApart(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const { sessions } = opened.store;
  await sessions.put([session('b~s', { tenant: 'a' }), session('s', { tenant: 'a-b' }), session('S')]);
  assert.equal(await sessions.get('default', 's'), undefined, 'names differ by their case');
  assert.equal(await sessions.get('b', 'S'), undefined);
  assert.equal((await sessions.get('a', 'b~s'))?.tenant, 'a');
  assert.deepEqual(idsIn(await sessions.list({ tenant: 'a', limit: 10 })), ['b~s']);
  assert.deepEqual(await sessions.list({ tenant: 'none', limit: 10 }), []);
  await sessions.drop([{ tenant: 'b', id: 'S' }]);
  assert.ok(await sessions.get('default', 'S'));
  await opened.close();
}

async function pages(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const { sessions } = opened.store;
  // Five sessions share each instant.
  const records = Array.from({ length: 35 }, (_, n) =>
    session(`s${n}`, { usedAt: 1000 + Math.floor(n / 5) }),
  );
  await sessions.put(records.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
  const expected = records.toSorted((a, b) => b.usedAt - a.usedAt || (a.id < b.id ? 1 : -1));
  for (const limit of [1, 3, 5, 34, 35, 100])
    assert.deepEqual(idsIn(await paged(sessions, limit)), idsIn(expected), `pages of ${limit}`);
  await opened.close();
}

async function paged(sessions: SessionArchive, limit: number): Promise<SessionRecord[]> {
  const found: SessionRecord[] = [];
  for (;;) {
    const page = await sessions.list({ tenant: 'default', before: found.at(-1), limit });
    assert.ok(page.length <= limit);
    if (page.length === 0) return found;
    found.push(...page);
  }
}

async function drops(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  await opened.store.sessions.put([session('a'), session('b'), session('c')]);
  const gone = [
    { tenant: 'default', id: 'a' },
    { tenant: 'default', id: 'c' },
    { tenant: 'default', id: 'never' },
  ];
  await opened.store.sessions.drop(gone);
  await opened.store.sessions.drop(gone);
  for (const round of ['at once', 'after a restart']) {
    const left = await opened.store.sessions.list({ tenant: 'default', limit: 10 });
    assert.deepEqual(idsIn(left), ['b'], round);
    opened = await reopen(fixture, opened);
  }
  await opened.store.sessions.drop([{ tenant: 'default', id: 'b' }]);
  assert.equal(await opened.store.sessions.isEmpty(), true);
  await opened.close();
}

async function oldest(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const { sessions } = opened.store;
  await sessions.put([
    session('new', { usedAt: 30 }),
    session('old', { usedAt: 10, tenant: 'x' }),
    session('middle', { usedAt: 20 }),
  ]);
  assert.deepEqual(idsIn(await sessions.oldest(30, 10)), ['old', 'middle']);
  assert.deepEqual(idsIn(await sessions.oldest(31, 2)), ['old', 'middle']);
  assert.deepEqual(await sessions.oldest(10, 10), []);
  await opened.close();
}

async function fenced(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  // Only such a store admits a second opener.
  if (opened.store.capabilities.secondOpener !== 'epoch') return opened.close();
  await opened.store.sessions.put([session('before')]);
  const successor = await Opened.on(fixture);
  await assert.rejects(opened.store.sessions.put([session('after')]), { code: 'FENCED' });
  await assert.rejects(opened.store.sessions.drop([session('before')]), { code: 'FENCED' });
  assert.deepEqual(idsIn(await successor.store.sessions.list({ tenant: 'default', limit: 10 })), ['before']);
  await opened.store.close();
  await successor.close();
}
