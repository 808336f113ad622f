/** What is dropped because of its age is judged by brain time that a purge has confirmed, and never by the wall clock. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { NOW, Opened } from '../conformance/opened.ts';
import { InlineBackground } from './background.ts';
import { SqliteHistory } from './history/sqlite.ts';
import { JournalStore } from './journal.ts';

const DAY = 24 * 3_600_000;
const AUDIT_MS = 7 * DAY;

class Kit {
  /** The wall clock, which is ahead of the brain time that the engine uses. */
  wall = NOW + 30 * DAY;
  readonly #folder: string;
  readonly #t: TestContext;

  constructor(t: TestContext, folder: string) {
    this.#t = t;
    this.#folder = folder;
  }

  async open(): Promise<Opened> {
    const env = { ...realEnv(), clock: { now: () => this.wall, monotonic: () => 0 } };
    const store = new JournalStore(env, {
      folder: this.#folder,
      checkpointIntervalMs: 2 ** 31 - 1,
      historyMs: AUDIT_MS,
      auditMs: AUDIT_MS,
      auditBytes: 2 ** 30,
      background: (paths) => new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write')),
    });
    this.#t.after(() => store.close());
    const opened = new Opened(store);
    await opened.open();
    return opened;
  }

  async segments(): Promise<number> {
    return (await readdir(join(this.#folder, 'log'))).filter((name) => name.endsWith('.log')).length;
  }
}

async function kit(t: TestContext): Promise<Kit> {
  const folder = await mkdtemp(join(tmpdir(), 'orchd-retention-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return new Kit(t, join(folder, 'data'));
}

/** Ends some jobs, with a checkpoint after each of them. */
async function endJobs(opened: Opened, names: readonly string[]): Promise<void> {
  for (const name of names) {
    opened.finish(name);
    await opened.handedOver();
    await opened.store.checkpoint();
  }
}

test('the audit trail is as old as brain time says: a wall clock that is ahead deletes nothing', async (t) => {
  const made = await kit(t);
  const opened = await made.open();
  await endJobs(opened, ['a', 'b', 'c', 'd']);
  const before = await made.segments();
  assert.ok(before >= 4, `${before}`);
  await opened.store.purge(0, 100, NOW + AUDIT_MS - 1000);
  await endJobs(opened, ['e']);
  assert.equal(await made.segments(), before + 1, 'nothing is as old as that');
  await opened.store.purge(0, 100, NOW + AUDIT_MS + DAY);
  await endJobs(opened, ['f']);
  assert.ok((await made.segments()) <= 3, `${await made.segments()}`);
  await opened.close();
});

test('a checkpoint keeps remembered failures that have not expired by brain time', async (t) => {
  const made = await kit(t);
  const opened = await made.open();
  opened.fail('a', { key: 'k' });
  await opened.handedOver();
  assert.equal(opened.engine.state.failures.size, 1);
  await opened.store.checkpoint();
  await opened.close();
  const again = await made.open();
  assert.equal(again.engine.state.failures.size, 1);
  await again.close();
});
