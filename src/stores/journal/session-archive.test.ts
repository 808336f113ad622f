/** The archive of a journal: its bodies are kept, and it is there again after damage and after an update of its file. */

import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readdirSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import type { BlobRef } from '../../model/body.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { NOW, Opened } from '../conformance/opened.ts';
import { InlineBackground } from './background.ts';
import { SqliteHistory } from './history/sqlite.ts';
import { JournalStore } from './journal.ts';

class Kit {
  readonly folder: string;
  monotonic = 0;
  readonly warnings: string[] = [];
  readonly #t: TestContext;

  constructor(t: TestContext, folder: string) {
    this.#t = t;
    this.folder = folder;
  }

  get index(): string {
    return join(this.folder, 'history.sqlite');
  }

  async open(): Promise<Opened> {
    const env = { ...realEnv(), clock: { now: () => NOW, monotonic: () => this.monotonic } };
    const store = new JournalStore(env, {
      folder: this.folder,
      checkpointIntervalMs: 2 ** 31 - 1,
      historyMs: 1e15,
      auditMs: 1e15,
      auditBytes: 2 ** 30,
      background: (paths) => new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write')),
      onWarning: (warning) => this.warnings.push(warning),
    });
    this.#t.after(() => store.close());
    const opened = new Opened(store);
    await opened.open();
    return opened;
  }

  /** Purges often enough for every file that nothing needs to go. */
  async sweep({ store }: Opened): Promise<void> {
    this.monotonic += 1e9;
    for (let sweep = 0; sweep < 4; sweep++) await store.purge(0, 100, NOW);
  }

  get blobFiles(): number {
    return readdirSync(join(this.folder, 'blobs')).length;
  }
}

async function kit(t: TestContext): Promise<Kit> {
  const folder = await mkdtemp(join(tmpdir(), 'orchd-archive-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return new Kit(t, join(folder, 'data'));
}

const sessionIn = ({ engine }: Opened, id: string): SessionRecord =>
  engine.state.sessionOf('default', id) as SessionRecord;

/** Moves a session to the archive as a brain does. */
async function archive(opened: Opened, id: string): Promise<SessionRecord> {
  const record = sessionIn(opened, id);
  await opened.settled();
  await opened.store.sessions.put([record]);
  opened.step({ type: 'archive-sessions', records: [record] });
  await opened.settled();
  return record;
}

/** Appends a session that names a body, which no command makes yet. */
function putSession(
  opened: Opened,
  record: SessionRecord,
  after: SessionRecord | null,
  cause: 'used' | 'deleted',
): void {
  const change = { kind: 'session', id: `default~${record.id}`, after, cause } as const;
  opened.engine.state.apply(change, opened.now);
  opened.store.append([change], opened.now);
}

test('a body that only a session names is kept, in memory and in the archive, until the session is gone', async (t) => {
  const made = await kit(t);
  let opened = await made.open();
  opened.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1 });
  const messages = await opened.store.putBlob('the messages');
  const named = { ...sessionIn(opened, 's'), messages: { ref: messages, values: 1, links: 1 } };
  putSession(opened, named, named, 'used');
  const check = async (where: string): Promise<void> => {
    for (const round of ['at once', 'reopened', 'from a checkpoint']) {
      await made.sweep(opened);
      assert.equal(String(await opened.store.readBlob(messages)), 'the messages', `${where}, ${round}`);
      if (round !== 'at once') await opened.store.checkpoint();
      await opened.close();
      opened = await made.open();
    }
    assert.deepEqual(made.warnings, []);
  };
  await opened.settled();
  await check('in memory');
  await archive(opened, 's');
  await check('in the archive');
  assert.deepEqual((await opened.store.sessions.get('default', 's')) as unknown, named);
  await opened.store.sessions.drop([named]);
  await opened.close();
  opened = await made.open();
  await made.sweep(opened);
  assert.equal(made.blobFiles, 0);
  await opened.close();
});

test('a missing file of an archived session is noticed at the start', async (t) => {
  const made = await kit(t);
  let opened = await made.open();
  opened.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1 });
  const messages: BlobRef = await opened.store.putBlob('the messages');
  await opened.store.sessions.put([{ ...sessionIn(opened, 's'), metadata: messages }]);
  await opened.close();
  await rm(join(made.folder, 'blobs', '00000001.blob'));
  opened = await made.open();
  assert.match(made.warnings.join(), /blob files are missing \(00000001\.blob\)/);
  await opened.close();
});

test('a lost index: the log tells which sessions are archived, and which came back or were deleted', async (t) => {
  const made = await kit(t);
  let opened = await made.open();
  for (const id of ['stays', 'back', 'deleted', 'gone', 'never'])
    opened.step({ type: 'budget', tenant: 'default', id, tokenBudget: 7 });
  const stays = await archive(opened, 'stays');
  for (const id of ['back', 'deleted', 'gone']) {
    const archived = await archive(opened, id);
    const lookup = { left: opened.engine.state.sessions.left, archived };
    if (id === 'back') opened.step({ type: 'budget', tenant: 'default', id, tokenBudget: 8, lookup });
    if (id === 'deleted') opened.step({ type: 'forget-session', tenant: 'default', id, by: 'test', lookup });
    if (id === 'gone') opened.step({ type: 'expire-archived', sessions: [archived] });
  }
  await opened.settled();
  await opened.store.checkpoint();
  await opened.close();
  await rm(made.index);
  opened = await made.open();
  assert.deepEqual(await opened.store.sessions.list({ tenant: 'default', limit: 10 }), [stays]);
  assert.deepEqual([sessionIn(opened, 'back').tokenBudget, sessionIn(opened, 'never').tokenBudget], [8, 7]);
  await opened.close();
});

test('damage in the index of jobs: archived sessions that the log no longer tells are taken along', async (t) => {
  const made = await kit(t);
  let opened = await made.open();
  for (let n = 0; n < 300; n++) opened.finish(`j${n}`, { tags: { text: 'x'.repeat(100) } });
  await opened.handedOver();
  // The log knows nothing of these.
  const archived = Array.from(
    { length: 20 },
    (_, n): SessionRecord => ({
      ...{ v: 3, tenant: 'default', id: `s${n}`, createdAt: 1, usedAt: n, turns: 1 },
      ...{
        tokensUsed: n,
        tokenBudget: undefined,
        threads: undefined,
        messages: undefined,
        metadata: undefined,
      },
    }),
  );
  await opened.store.sessions.put(archived);
  await opened.close();
  damageTable(made.index, 'jobs');
  opened = await made.open();
  for (let n = 0; n < 300; n++) assert.ok(await opened.store.history.get(`j${n}`));
  assert.ok(existsSync(`${made.index}.damaged`));
  assert.deepEqual(
    await opened.store.sessions.list({ tenant: 'default', limit: 100 }),
    archived.toReversed(),
  );
  await opened.close();
});

/** Overwrites the root page of a table. */
function damageTable(path: string, table: string): void {
  const database = new DatabaseSync(path);
  const row = database.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(table);
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
  const file = openSync(path, 'r+');
  writeSync(file, new Uint8Array(4096).fill(0xa5), 0, 4096, (Number(row?.['rootpage']) - 1) * 4096);
  closeSync(file);
}

test('an index of layout 3, without an archive, is kept and gets one; a reader finds it empty', async (t) => {
  const made = await kit(t);
  let opened = await made.open();
  opened.finish('a');
  await opened.handedOver();
  await opened.close();
  const database = new DatabaseSync(made.index);
  database.exec("DROP TABLE sessions; UPDATE facts SET value = 3 WHERE name = 'layout'");
  database.close();
  const reader = new SqliteHistory(made.index, 'read');
  reader.open();
  assert.deepEqual(
    [reader.sessions.isEmpty(), [...reader.sessions.all()], reader.blobFiles()],
    [true, [], []],
  );
  reader.close();
  opened = await made.open();
  assert.deepEqual(made.warnings, []);
  assert.equal((await opened.store.history.get('a'))?.uid, 'a');
  opened.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1 });
  const record = await archive(opened, 's');
  assert.deepEqual(await opened.store.sessions.get('default', 's'), record);
  await opened.close();
});
