/** Promises about the keys with which the bodies of sessions are sealed. */
import assert from 'node:assert/strict';
import type { KeyOwner } from '../../core/ports/keys.ts';
import type { SealKey } from '../../kit/seal.ts';
import { Opened, reopen, type StoreFixture } from './opened.ts';
import type { StorePromise } from './promises.ts';

export const KEY_PROMISES: readonly StorePromise[] = [
  ['the key of a session stays the same, also after a restart, and every session has another one', kept],
  ['of callers that ask for the key of a new session at once, all get the same', atOnce],
  ['a dropped key is gone, also after a restart, and the session gets another one', dropped],
  ['a key that is dropped while it is made or asked for is gone, and none is lost', together],
  ['the owners of all keys are found page by page', paged],
  ['a store that cannot write any more makes no key and drops none', unwritable],
];

const owner = (session: string, tenant = 'default'): KeyOwner => ({ tenant, session });
const same = (one: SealKey, other: SealKey, why: string): void =>
  assert.deepEqual([one.id, one.key.toString('hex')], [other.id, other.key.toString('hex')], why);

async function kept(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const owners = [
    owner('s'),
    owner('s', 'other'),
    owner('S'),
    owner('a~b'),
    owner('x'.repeat(128), 'y'.repeat(64)),
  ];
  const made: SealKey[] = [];
  for (const each of owners) made.push(await opened.store.keys.obtain(each));
  assert.equal(new Set(made.map(({ id }) => id)).size, owners.length);
  assert.equal(new Set(made.map(({ key }) => key.toString('hex'))).size, owners.length);
  for (const round of ['made', 'reopened', 'reopened again']) {
    const { keys } = opened.store;
    for (const [at, each] of owners.entries()) {
      const key = made[at] as SealKey;
      assert.equal(key.key.length, 32);
      same(await keys.obtain(each), key, round);
      assert.ok((await keys.find(key.id))?.equals(key.key), round);
    }
    assert.equal(await keys.find('never-made'), undefined);
    opened = await reopen(fixture, opened);
  }
  await opened.close();
}

async function atOnce(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const { keys } = opened.store;
  const owners = Array.from({ length: 60 }, (_, n) => owner(`s${n % 6}`, n % 2 ? 'other' : 'default'));
  const made = await Promise.all(owners.map((each) => keys.obtain(each)));
  for (const [at, key] of made.entries())
    same(key, await keys.obtain(owners[at] as KeyOwner), `caller ${at}`);
  assert.equal(new Set(made.map(({ id }) => id)).size, 6);
  await opened.close();
}

async function dropped(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const first = await opened.store.keys.obtain(owner('s'));
  const other = await opened.store.keys.obtain(owner('s', 'other'));
  await opened.store.keys.drop(owner('s'));
  await opened.store.keys.drop(owner('s'));
  await opened.store.keys.drop(owner('never'));
  assert.equal(await opened.store.keys.find(first.id), undefined);
  opened = await reopen(fixture, opened);
  assert.equal(await opened.store.keys.find(first.id), undefined);
  const second = await opened.store.keys.obtain(owner('s'));
  assert.notEqual(second.id, first.id);
  assert.ok(!second.key.equals(first.key));
  assert.ok((await opened.store.keys.find(other.id))?.equals(other.key), "another tenant's key stays");
  opened = await reopen(fixture, opened);
  same(await opened.store.keys.obtain(owner('s')), second, 'the second key stays');
  assert.equal(await opened.store.keys.find(first.id), undefined);
  await opened.close();
}

async function together(fixture: StoreFixture): Promise<void> {
  let opened = await Opened.on(fixture);
  const { keys } = opened.store;
  const before = await keys.obtain(owner('s'));
  const calls = await Promise.all([
    keys.drop(owner('s')).then(() => undefined),
    keys.obtain(owner('s')),
    keys.drop(owner('s')).then(() => undefined),
    keys.obtain(owner('t')),
    keys.drop(owner('s')).then(() => undefined),
  ]);
  await keys.drop(owner('s'));
  for (const id of [before.id, calls[1].id]) assert.equal(await keys.find(id), undefined);
  same(await keys.obtain(owner('t')), calls[3], 'the other session keeps its key');
  opened = await reopen(fixture, opened);
  for (const id of [before.id, calls[1].id]) assert.equal(await opened.store.keys.find(id), undefined);
  same(await opened.store.keys.obtain(owner('t')), calls[3], 'also after a restart');
  await opened.close();
}

async function paged(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  const { keys } = opened.store;
  for (let n = 0; n < 11; n++) await keys.obtain(owner(`s${n}`, n % 2 ? 'other' : 'default'));
  await keys.drop(owner('s4'));
  const found: string[] = [];
  for (let after: number | undefined = 0; after !== undefined; ) {
    const page = await keys.owners(after, 3);
    assert.ok(page.owners.length <= 3);
    for (const { tenant, session } of page.owners) found.push(`${tenant} ${session}`);
    after = page.next;
  }
  const all = Array.from({ length: 11 }, (_, n) => `${n % 2 ? 'other' : 'default'} s${n}`);
  assert.deepEqual(found.sort(), all.filter((name) => name !== 'default s4').sort());
  await opened.close();
}

async function unwritable(fixture: StoreFixture): Promise<void> {
  const opened = await Opened.on(fixture);
  await opened.store.keys.obtain(owner('s'));
  await fixture.breakWrites();
  await assert.rejects(opened.store.keys.obtain(owner('new')));
  await assert.rejects(opened.store.keys.drop(owner('s')));
  await opened.store.close().catch(() => undefined);
}
