/** Every store of this repository, and the fixtures that open them for the one suite. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { WALK_SETTINGS, walk, walkCommands } from '../../../test/fakes/engine-walk.ts';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import type { Disk, DiskFile, Env, Timers } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { BlobRef } from '../../model/records.ts';
import { type Background, InlineBackground } from '../journal/background.ts';
import { SqliteHistory } from '../journal/history/sqlite.ts';
import { JournalStore } from '../journal/journal.ts';
import type { Paths } from '../journal/layout.ts';
import { LOG_LIMITS, type LogLimits } from '../journal/log/writer.ts';
import { ThreadBackground } from '../journal/thread.ts';
import { MariaDbStore } from '../mariadb/mariadb.ts';
import { connector, type Sql } from '../mariadb/sql.ts';
import { Medium, MemoryStore } from '../memory/memory.ts';
import { Opened, type StoreFixture, type Story } from './opened.ts';
import { type Stories, storeConformance } from './suite.ts';

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

const PATIENCE_MS = 5000;

async function within(promise: Promise<unknown>): Promise<void> {
  const { promise: tooLong, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('it waits for ever')), PATIENCE_MS);
  await Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
}

/** Timers that keep no process alive: a store that could not be closed must not hold up the others. */
const timers: Timers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
  soon: (run) => void setImmediate(run),
};

/** A gate that lets everything through until it is held. */
class Gate {
  #open: Promise<void> = Promise.resolve();

  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#open = promise;
    return resolve;
  }

  pass(): Promise<void> {
    return this.#open;
  }
}

async function memoryFixture(): Promise<StoreFixture> {
  const gate = new Gate();
  const medium = new Medium();
  const soon = (run: () => void) => void setImmediate(() => void gate.pass().then(run));
  const make = () => new MemoryStore({ ...timers, soon }, medium);
  return {
    make,
    hold: () => gate.hold(),
    // The only way it can fail: another one has opened what it writes to.
    breakWrites: () => new Opened(make()).open(),
    lost: (ref) => ({ ...ref, at: 1000 }) as BlobRef,
    turns,
    within,
    remove: async () => undefined,
  };
}

/** Both kinds of references that are kept for long have a number of this name. */
const elsewhere = (ref: BlobRef): BlobRef =>
  ({ ...ref, file: (ref as BlobRef & { readonly file: number }).file + 1000 }) as BlobRef;

class FixtureDisk {
  readonly gate = new Gate();
  broken = false;
  readonly disk: Disk;

  constructor(real: Disk) {
    this.disk = new Proxy(real, {
      get: (target, name) => {
        if (name === 'open')
          return async (...args: Parameters<Disk['open']>) => this.#file(await target.open(...args));
        const member = target[name as keyof Disk];
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
  }

  #file(file: DiskFile): DiskFile {
    const sync = file.datasync.bind(file);
    file.datasync = async () => {
      await this.gate.pass();
      if (this.broken) throw Object.assign(new Error('the disk is broken'), { code: 'EIO' });
      await sync();
    };
    return file;
  }
}

async function journalFixture(
  background: (env: Env, paths: Paths) => Background,
  limits: LogLimits = LOG_LIMITS,
): Promise<StoreFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-store-'));
  const fixtureDisk = new FixtureDisk(realEnv().disk);
  // A clock that stands still: nothing expires while it is compared.
  const env = { ...realEnv(), timers, disk: fixtureDisk.disk, clock: { now: () => 0, monotonic: () => 0 } };
  const options = {
    folder: join(folder, 'data'),
    checkpointIntervalMs: 60_000,
    historyMs: 1e15,
    auditMs: 1e15,
    auditBytes: 2 ** 30,
    background: (paths: Paths) => background(env, paths),
    limits,
  };
  return {
    make: () => new JournalStore(env, options),
    hold: () => fixtureDisk.gate.hold(),
    breakWrites: async () => {
      fixtureDisk.broken = true;
    },
    lost: elsewhere,
    turns,
    within,
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

const inline = (env: Env, paths: Paths): Background =>
  new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write'));

/** Segments that fill up within a test. */
const SMALL: LogLimits = {
  minSegmentBytes: 16 * 1024,
  maxSegmentBytes: 64 * 1024,
  maxFrameBytes: 8 * 1024,
  maxPendingBytes: 2 ** 20,
};

/** One server for all, started with the first that needs it; each fixture has a database of its own. */
let server: Promise<TestServer> | undefined;
after(async () => (await server)?.stop());

async function mariaDbFixture(): Promise<StoreFixture> {
  server ??= testMariaDb();
  const url = await (await server).database();
  const gate = new Gate();
  const connect = async (): Promise<Sql> => {
    const sql = await connector(url)();
    const commit = sql.commit.bind(sql);
    sql.commit = () => gate.pass().then(commit);
    return sql;
  };
  const env = { ...realEnv(), timers };
  const make = () => new MariaDbStore(env, { connect });
  return {
    make,
    hold: () => gate.hold(),
    // Another one leads.
    breakWrites: async () => {
      const other = new Opened(make());
      await other.open();
      await other.store.close();
    },
    lost: elsewhere,
    turns,
    within,
    remove: async () => undefined,
  };
}

/** Folder under src/stores → how its stores are opened. */
const STORES: Readonly<Record<string, Readonly<Record<string, () => Promise<StoreFixture>>>>> = {
  memory: { memory: memoryFixture },
  journal: {
    'journal (inline, small segments)': () => journalFixture(inline, SMALL),
    'journal (thread)': () => journalFixture((_, paths) => new ThreadBackground(paths)),
  },
  mariadb: { mariadb: mariaDbFixture },
};

test('[NEWS-14] every store of this repository is in the list: embedded or a real server, they pass the same suite', () => {
  const folders = readdirSync(join(import.meta.dirname, '..'), { withFileTypes: true });
  const stores = folders.filter(
    (item) => item.isDirectory() && !['conformance', 'moving'].includes(item.name),
  );
  assert.deepEqual(stores.map(({ name }) => name).sort(), Object.keys(STORES).sort());
});

/** Walks of an engine as they were, to be told again on each store. */
function recordedStories(): Stories {
  const stories: Story[] = [];
  for (const commands of fc.sample(walkCommands(400), { numRuns: 4, seed: 11 })) {
    // What leaves memory is the store's own matter.
    const kit = walk(commands.filter(({ kind }) => kind !== 'indexed'));
    stories.push(kit.events);
  }
  return { settings: WALK_SETTINGS, stories };
}

const stories = recordedStories();
for (const fixtures of Object.values(STORES)) {
  for (const [name, make] of Object.entries(fixtures)) storeConformance(name, make, stories);
}
