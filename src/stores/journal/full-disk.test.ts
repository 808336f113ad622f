/** A disk that has no room left for growing files: when it counts as full, and that a store can be closed on it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askOf, NOW } from '../../../test/fakes/folder-maker.ts';
import { MemoryDisk } from '../../../test/fakes/memory-disk.ts';
import { turns } from '../../../test/flow/flow-kit.ts';
import { VirtualEnv } from '../../../test/flow/virtual-env.ts';
import type { DiskFile, OpenMode } from '../../kit/env/env.ts';
import type { OrchdError } from '../../model/errors.ts';
import { accept, end, FRESH_JOB, newAttempt } from '../../model/moves.ts';
import { BRAIN_ID } from '../../model/records.ts';
import { Records } from '../records.ts';
import { InlineBackground } from './background.ts';
import type { HistoryIndex } from './history/history.ts';
import { MemoryHistory } from './history/memory.ts';
import { JournalStore } from './journal.ts';

/** Files of at most `room` bytes can be written; larger ones cannot grow. */
class SmallDisk extends MemoryDisk {
  room = Number.POSITIVE_INFINITY;

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const file = await super.open(path, mode);
    return {
      ...file,
      write: async (position, data) => {
        const grows = position + data.length > (await file.size());
        if (grows && position + data.length > this.room)
          throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
        await file.write(position, data);
      },
    };
  }
}

class Journal {
  readonly time = new VirtualEnv();
  readonly disk = new SmallDisk();
  readonly space: boolean[] = [];
  readonly failures: Error[] = [];
  readonly store: JournalStore;

  constructor(history: HistoryIndex = new MemoryHistory()) {
    const env = this.time.env(this.disk);
    this.store = new JournalStore(env, {
      folder: '/data',
      checkpointIntervalMs: 1e9,
      historyMs: 1e12,
      auditMs: 1e12,
      auditBytes: 2 ** 30,
      limits: { minSegmentBytes: 8192, maxSegmentBytes: 8192, maxFrameBytes: 4096, maxPendingBytes: 2 ** 20 },
      background: (paths) => new InlineBackground(this.disk, paths, history),
    });
  }

  async open(): Promise<this> {
    const events = {
      durable: () => undefined,
      indexed: () => undefined,
      space: (full: boolean) => void this.space.push(full),
      failed: (error: Error) => void this.failures.push(error),
      ask: () => askOf('a', 1),
    };
    await this.store.open(events, NOW, new Records());
    await turns();
    return this;
  }

  async append(): Promise<void> {
    const after = { v: 1 as const, owner: 'o', epoch: 1, attemptFloor: 0 };
    this.store.append([{ kind: 'brain', id: BRAIN_ID, after, cause: 'open' }], NOW);
    await turns();
  }

  /** Lets so much time pass, and everything happen that is due by then. */
  async pass(ms: number): Promise<void> {
    await this.time.pass(ms);
    await turns();
  }
}

const ENDED = {
  uid: 'a',
  seq: 1,
  ask: askOf('a', 1),
  job: { ...FRESH_JOB, state: 'succeeded', endedAt: NOW } as const,
  attempts: [],
};

test('the disk counts as full once a body finds no space, until a body of that size finds some', async () => {
  const journal = await new Journal().open();
  journal.disk.room = 10_000;
  await assert.rejects(journal.store.putBlob('x'.repeat(50_000)), { code: 'STORE_FULL' });
  assert.deepEqual(journal.space, [true]);
  journal.disk.room = 40_000;
  await journal.pass(1000);
  assert.deepEqual(journal.space, [true], 'there is more space, but less than the body needs');
  journal.disk.room = 60_000;
  await journal.pass(1000);
  assert.deepEqual(journal.space, [true, false]);
  assert.deepEqual(
    [...journal.disk.files.keys()].filter((path) => path.includes('probe')),
    [],
  );
  await journal.store.putBlob('x'.repeat(50_000));
  await journal.store.close();
});

test('a result of that size that is written meanwhile ends it at once', async () => {
  const journal = await new Journal().open();
  journal.disk.room = 10_000;
  await assert.rejects(journal.store.putBlob('x'.repeat(50_000)), { code: 'STORE_FULL' });
  journal.disk.room = 100_000;
  await journal.store.putBlob('small');
  assert.deepEqual(journal.space, [true]);
  await journal.store.putBlob('x'.repeat(50_000));
  assert.deepEqual(journal.space, [true, false]);
  await journal.store.close();
});

test('the disk counts as full while the history finds no space, and while any of its writers does', async () => {
  let isFull = false;
  class FullHistory extends MemoryHistory {
    override put(rows: readonly string[], watermark: number): void {
      if (isFull && rows.length > 0) throw new Error('database or disk is full');
      super.put(rows, watermark);
    }
  }
  const journal = await new Journal(new FullHistory()).open();
  isFull = true;
  journal.store.index([ENDED], 1);
  await journal.pass(250);
  assert.deepEqual(journal.space, [true]);
  journal.disk.room = 10_000;
  await assert.rejects(journal.store.putBlob('x'.repeat(50_000)), { code: 'STORE_FULL' });
  isFull = false;
  await journal.pass(250);
  assert.deepEqual(journal.space, [true], 'the body still finds no space');
  journal.disk.room = 100_000;
  await journal.pass(1000);
  assert.deepEqual(journal.space, [true, false]);
  await journal.store.close();
});

test('a reader of charges is told of a full disk each time, instead of getting too low a sum, until they are written', async () => {
  let isFull = true;
  class FullHistory extends MemoryHistory {
    override put(...[rows, watermark, log, charges]: Parameters<MemoryHistory['put']>): void {
      if (isFull && charges && charges.length > 0) throw new Error('database or disk is full');
      super.put(rows, watermark, log, charges);
    }
  }
  const journal = await new Journal(new FullHistory()).open();
  const usage = { input: 1, cacheRead: 0, cacheWrite: 0, output: 2, reasoning: 0 };
  const intended = newAttempt({ job: 'a', n: 1, backend: 'b', registry: 'r', epoch: 1, at: NOW });
  const after = end(accept(intended, NOW, 1), NOW, 'failed', { usage });
  journal.store.append([{ kind: 'attempt', id: 'a:1', after, cause: 'failed' }], NOW);
  await turns();
  const { ledger } = journal.store;
  const window = { from: 0, to: NOW + 1 };
  const refused = { code: 'STORE_FULL' };
  const readers = [ledger.sums(window, [], 1), ledger.page(window, undefined, 9)];
  for (const reader of readers) await assert.rejects(reader, refused);
  await assert.rejects(ledger.sums(window, [], 1), refused);
  assert.deepEqual(journal.space.slice(0, 1), [true]);
  isFull = false;
  assert.deepEqual(
    (await ledger.page(window, undefined, 9)).map(({ token }) => token),
    ['a:1'],
  );
  assert.equal((await ledger.sums(window, [], 1))[0]?.attempts, 1);
  assert.equal(journal.space.at(-1), false);
  assert.deepEqual(journal.failures, []);
  await journal.store.close();
});

test('a store closes while a checkpoint waits for a segment that the disk has no room for', async () => {
  const journal = await new Journal().open();
  await journal.append();
  journal.disk.room = 0;
  // The roll takes the spare segment, and none can be made after it; the next roll waits for space.
  await journal.store.checkpoint().catch(() => undefined);
  await journal.append();
  const checkpoint = journal.store.checkpoint();
  const refused = assert.rejects(checkpoint, (error: OrchdError) => error.code === 'STORE_FULL');
  await turns();
  let isClosed = false;
  const closed = journal.store.close().then(() => {
    isClosed = true;
  });
  await turns();
  await journal.pass(1000);
  assert.equal(isClosed, true, 'it is closed within one retry');
  await Promise.all([closed, refused]);
  assert.deepEqual(journal.failures, [], 'nothing appended was lost, so the store has not failed');
});
