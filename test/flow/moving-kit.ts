/** Stores full of everything that is awkward to move, and what a reader finds in them. */

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JobBundle, Store } from '../../src/core/ports/store.ts';
import { bundleOf } from '../../src/core/state/job-entry.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { BlobRef, Body } from '../../src/model/body.ts';
import { namedBodies } from '../../src/model/named-bodies.ts';
import { tokenOf } from '../../src/model/records.ts';
import type { SessionRecord } from '../../src/model/session-record.ts';
import { Opened } from '../../src/stores/conformance/opened.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import { journalPlace } from '../../src/stores/journal/migration/place.ts';
import { MariaDbStore } from '../../src/stores/mariadb/mariadb.ts';
import { tablesPlace } from '../../src/stores/mariadb/migration/place.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import type { MigratableStore } from '../../src/stores/migration/between.ts';

const YEAR_MS = 365 * 24 * 3600_000;
const MIB = 2 ** 20;

export const newFolder = (): string => fs.mkdtempSync(join(tmpdir(), 'orchd-move-'));

export function journalOn(folder: string): JournalStore {
  const env = realEnv();
  return new JournalStore(env, {
    folder,
    checkpointIntervalMs: YEAR_MS,
    historyMs: 100 * YEAR_MS,
    auditMs: YEAR_MS,
    auditBytes: 2 ** 30,
    background: (paths) => new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write')),
  });
}

export const tablesOn = (url: string): MariaDbStore =>
  new MariaDbStore(realEnv(), { connect: connector(url) });

export const journal = journalPlace;
export const tables = (url: string, connect = connector(url)): MigratableStore =>
  tablesPlace({ connect, label: 'the database of the test', unsafe: false });

/** An engine on the store that leads, as a brain does from its start. */
export async function lead(store: Store, owner = 'the-owner'): Promise<Opened> {
  const opened = new Opened(store);
  await opened.open();
  opened.step({ type: 'open', owner });
  return opened;
}

const KEYS = [
  'key',
  'KEY',
  'key ',
  ' key',
  'k\u00e9y',
  'ke\u0301y',
  '🦊',
  '\u{1f98a}\t"\\\n',
  'x'.repeat(255),
  '🦊'.repeat(127),
];

/** Every sort of job, of several tenants. */
export async function fill(opened: Opened, rounds = 1): Promise<void> {
  const { store } = opened;
  const body = async (text: string): Promise<{ payload: BlobRef; payloadBytes: number }> => {
    const payload = await store.putBlob(text);
    return { payload, payloadBytes: payload.bytes };
  };
  for (let round = 0; round < rounds; round++) {
    for (const [n, key] of KEYS.entries()) {
      for (const tenant of ['default', 'acme', 'Acme']) {
        opened.finish(`done-${round}-${n}`, { tenant, key, session_id: key });
        opened.fail(`dead-${round}-${n}`, { tenant, key: `bad ${key} ${round}`, agent: key });
        // No backend takes this type: it waits.
        opened.submit(`waits-${round}-${n}`, {
          tenant,
          key: `${key}${round}`.slice(-255),
          type: 'other',
          labels: { a: '🦊' },
        });
      }
    }
    for (const id of ['twin', 'Twin', 'TWIN']) opened.finish(`${id}-${round}`, { hash: 'chosen' }, '"🦊 "');
    opened.finish(`large-${round}`, await body(JSON.stringify('é🦊'.repeat(MIB / 2))));
    const { uid } = opened.submit(`large-live-${round}`, {
      type: 'other',
      ...(await body(JSON.stringify('y'.repeat(3 * MIB)))),
    });
    opened.step({ type: 'cancel', uid, by: 'test' });
    opened.submit(`large-waits-${round}`, { type: 'other', ...(await body(`"${'z'.repeat(5000)}"`)) });
    const result = await store.putBlob(JSON.stringify('r'.repeat(9000)));
    const large = opened.submit(`large-result-${round}`);
    opened.step({ type: 'outcome', token: tokenOf(large.uid, 1), outcome: { ok: true, result } });
    retryTwice(opened, `tries-${round}`);
    const running = opened.submit(`running-${round}`);
    opened.step({ type: 'offered', token: running.token, answer: { is: 'accepted' } });
    const quarantined = opened.submit(`cancelled-running-${round}`);
    opened.step({ type: 'offered', token: quarantined.token, answer: { is: 'accepted' } });
    opened.step({ type: 'cancel', uid: quarantined.uid, by: 'test' });
    opened.submit(`later-${round}`, { not_before: opened.now + 1e9 });
    opened.now += 10;
  }
  const messages = await store.putBlob(JSON.stringify('m'.repeat(9000)));
  await store.sessions.put([
    archived('plain', 'acme'),
    archived(KEYS[2] as string, 'Acme'),
    { ...archived('with messages', 'default'), messages: { ref: messages, values: 1, links: 1 } },
  ]);
  const metadata = await store.putBlob(JSON.stringify('d'.repeat(9000)));
  opened.step({ type: 'create-session', tenant: 'acme', id: 'live', content: { metadata } });
  await opened.handedOver();
  const known = await store.history.get('dead-0-0');
  opened.step({ type: 'redrive', uid: 'dead-0-0', by: 'test', known });
  // Nobody waits for these to be handed over.
  retryTwice(opened, 'tried-last');
  opened.finish('ended-last');
  await opened.settled();
}

const archived = (id: string, tenant: string): SessionRecord => ({
  v: 3,
  tenant,
  id,
  createdAt: 1,
  usedAt: 2,
  turns: 3,
  tokensUsed: 4,
  tokenBudget: 5,
  threads: [{ backend: 'b', thread: 't', heard: 2, hash: 'h' }],
  messages: undefined,
  metadata: undefined,
});

function retryTwice(opened: Opened, id: string): void {
  const { uid } = opened.submit(id, { tags: { team: '🦊 "x"' }, agent: 'é' });
  for (let n = 1; n <= 2; n++) {
    const error = { code: 'WORKER_TIMEOUT', message: 'late', retriable: true } as const;
    const usage = { input: n, cacheRead: 2, cacheWrite: 3, output: 4, reasoning: 5 };
    opened.step({ type: 'outcome', token: tokenOf(uid, n), outcome: { ok: false, error, usage } });
    opened.step({ type: 'tick' }, opened.now + 100_000);
  }
}

/** All jobs, charges and archived sessions as anybody can read them through a store, with their bodies in place of references. */
export async function readAll(opened: Opened): Promise<Map<string, unknown>> {
  const { store, engine } = opened;
  const bundles: JobBundle[] = [...engine.state.jobs.values()].map(bundleOf);
  for (const tenant of ['default', 'acme', 'Acme']) {
    const ended = await store.history.list({ tenant, limit: 1e6 });
    // A job that lives again is in memory as it is now.
    bundles.push(...ended.filter(({ uid }) => !engine.state.jobs.has(uid)));
  }
  const text = async (part: Body | undefined): Promise<string | undefined> =>
    typeof part === 'object' ? `stored ${await store.readBlob(part)}` : part;
  const all = new Map<string, unknown>();
  for (const { uid, ask, job, attempts } of bundles) {
    if (all.has(uid)) throw new Error(`${uid} is there twice`);
    all.set(uid, {
      ask: { ...ask, payload: await text(ask.payload) },
      job: { ...job, result: await text(job.result) },
      attempts,
    });
  }
  for (const [id, failure] of engine.state.failures) all.set(`failure ${id}`, failure);
  const always = { from: 0, to: Number.MAX_SAFE_INTEGER };
  for (const charge of await store.ledger.page(always, undefined, 1000))
    all.set(`charge ${charge.token}`, charge);
  const live = engine.state.sessionOf('acme', 'live');
  all.set('live session', { ...live, metadata: await text(live?.metadata) });
  for (const tenant of ['default', 'acme', 'Acme'])
    for (const session of await store.sessions.list({ tenant, limit: 1000 })) {
      const texts = await Promise.all(namedBodies('session', session).map(text));
      all.set(`session ${tenant} ${session.id}`, { ...session, messages: texts });
    }
  return all;
}

/** Every file of a folder with its bytes. */
export function bytesOf(folder: string): Map<string, string> {
  const names = fs.readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((item) => item.isFile()).map((item) => join(item.parentPath, item.name));
  return new Map(files.sort().map((path) => [path, fs.readFileSync(path, 'base64')]));
}
