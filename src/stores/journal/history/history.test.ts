/** Behaviour that both kinds of index share and that the conformance suite cannot reach through a store. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { askOf } from '../../../../test/fakes/folder-maker.ts';
import type { BlobRef } from '../../../model/body.ts';
import { chargeOf } from '../../../model/charge.ts';
import { accept, end, FRESH_JOB, newAttempt } from '../../../model/moves.ts';
import { type AttemptRecord, uidOf } from '../../../model/records.ts';
import { chargeRow, readCharge } from './charge-rows.ts';
import { type HistoryIndex, historyRow } from './history.ts';
import { MemoryHistory } from './memory.ts';
import { SqliteHistory } from './sqlite.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-history-'));
after(() => rmSync(root, { recursive: true, force: true }));

const KINDS: Readonly<Record<string, () => HistoryIndex>> = {
  memory: () => new MemoryHistory(),
  sqlite: () => new SqliteHistory(join(root, 'history.sqlite'), 'write'),
};

for (const [kind, make] of Object.entries(KINDS)) {
  test(`after() pages through the ended jobs of all tenants in order of admission (${kind})`, () => {
    const history = make();
    history.open();
    const places = [5, 3, 11, 2, 8];
    const rows = places.map((n) => {
      const ask = askOf(`j${n}`, n, { tenant: n % 2 === 0 ? 'default' : `t${n}` });
      const job = { ...FRESH_JOB, state: 'succeeded', endedAt: 1 } as const;
      return historyRow({ uid: uidOf(ask.tenant, ask.id), seq: n, ask, job, attempts: [] }).trimEnd();
    });
    history.put(rows, 11);
    const seen: number[] = [];
    for (let n = 0; ; ) {
      const page = history.after(n, 2);
      if (page.length === 0) break;
      seen.push(...page.map(({ ask }) => ask.n));
      n = seen.at(-1) ?? 0;
    }
    assert.deepEqual(
      seen,
      places.toSorted((a, b) => a - b),
    );
    history.close();
  });

  test(`blobFiles() names every blob file that an ended job refers to (${kind})`, () => {
    const history = make();
    history.open();
    const inFile = (file: number): BlobRef => ({ file, offset: 0, bytes: 5000, crc: 0 }) as BlobRef;
    const used: [payload: number | undefined, result: number | undefined][] = [
      [3, 9],
      [3, 7],
      [undefined, 12],
      [5, undefined],
      [undefined, undefined],
    ];
    const rows = used.map(([payload, result], at) => {
      const ask = askOf(`b${at}`, 100 + at, payload === undefined ? {} : { payload: inFile(payload) });
      const job = { ...FRESH_JOB, state: 'succeeded', endedAt: 1 } as const;
      const bundle = { uid: uidOf(ask.tenant, ask.id), seq: at, ask, attempts: [] };
      const ended = result === undefined ? job : { ...job, result: inFile(result) };
      return historyRow({ ...bundle, job: ended }).trimEnd();
    });
    history.put(rows, 200);
    assert.deepEqual(
      history.blobFiles().sort((a, b) => a - b),
      [3, 5, 7, 9, 12],
    );
    history.close();
  });
}

test('an index of layout 1, without batches and tags, is kept and gets their columns', () => {
  const path = join(root, 'old.sqlite');
  const rowOf = (id: string, n: number, fields: object): string => {
    const ask = askOf(id, n, fields);
    const job = { ...FRESH_JOB, state: 'succeeded', endedAt: 1 } as const;
    return historyRow({ uid: id, seq: n, ask, job, attempts: [] }).trimEnd();
  };
  const made = new SqliteHistory(path, 'write');
  made.open();
  made.put([rowOf('old', 1, {})], 1);
  made.close();
  const database = new DatabaseSync(path);
  database.exec(
    "DROP INDEX jobs_batch; ALTER TABLE jobs DROP COLUMN batch; ALTER TABLE jobs DROP COLUMN tags; UPDATE facts SET value = 1 WHERE name = 'layout'",
  );
  database.close();
  const history = new SqliteHistory(path, 'write');
  assert.deepEqual([history.open().watermark, history.get('old')?.uid], [1, 'old']);
  const spec = { ...askOf('x', 1).spec, batch: 'b', tags: { a: '1' } };
  history.put([rowOf('new', 2, { spec })], 2);
  const found = (query: object) =>
    history.list({ tenant: 'default', limit: 9, ...query }).map(({ uid }) => uid);
  assert.deepEqual(
    [found({}), found({ batch: 'b' }), found({ tags: { a: '1' } })],
    [['new', 'old'], ['new'], ['new']],
  );
  history.close();
});

test('an index of layout 3, without topmost jobs, is kept and gets those of its jobs', () => {
  const path = join(root, 'rootless.sqlite');
  const rowOf = (id: string, n: number, ancestors: readonly string[] | undefined): string => {
    const job = { ...FRESH_JOB, state: 'succeeded', endedAt: 1 } as const;
    return historyRow({ uid: id, seq: n, ask: askOf(id, n, { ancestors }), job, attempts: [] }).trimEnd();
  };
  const made = new SqliteHistory(path, 'write');
  made.open();
  made.put([rowOf('alone', 1, undefined), rowOf('below', 2, ['top', 'middle'])], 2);
  made.close();
  const database = new DatabaseSync(path);
  database.exec(
    "DROP INDEX jobs_root; ALTER TABLE jobs DROP COLUMN root; UPDATE facts SET value = 3 WHERE name = 'layout'",
  );
  database.close();
  for (const start of ['first', 'second']) {
    const history = new SqliteHistory(path, 'write');
    const { watermark, lacksCharges } = history.open();
    assert.deepEqual([watermark, lacksCharges], [2, false], start);
    const found = history.list({ tenant: 'default', limit: 9, root: 'top' }).map(({ uid }) => uid);
    assert.deepEqual(found, ['below'], start);
    history.close();
  }
});

const USAGE = { input: 7, cacheRead: 5, cacheWrite: 3, output: 2, reasoning: 1 };

function closedAttempt(job: string, n: number, usage?: typeof USAGE): AttemptRecord {
  const intended = newAttempt({ job, n, backend: 'b', registry: 'r', epoch: 1, at: 10 });
  return end(accept(intended, 11, 1), 20 + n, 'failed', { usage });
}

test('an index of layout 2, without charges, gets those of the jobs that have used tokens, and keeps its layout until it has all', () => {
  const path = join(root, 'uncharged.sqlite');
  const rowOf = (id: string, n: number, attempts: readonly AttemptRecord[]): string => {
    const job = { ...FRESH_JOB, state: 'dead', endedAt: 30, attempt: attempts.length } as const;
    return historyRow({ uid: id, seq: n, ask: askOf(id, n), job, attempts }).trimEnd();
  };
  const tries = [closedAttempt('used', 1, USAGE), closedAttempt('used', 2), closedAttempt('used', 3, USAGE)];
  const rows = [rowOf('used', 1, tries), rowOf('unused', 2, [closedAttempt('unused', 1)])];
  const made = new SqliteHistory(path, 'write');
  made.open();
  made.put(rows, 2);
  made.close();
  const database = new DatabaseSync(path);
  database.exec("DROP TABLE charges; UPDATE facts SET value = 2 WHERE name = 'layout'");
  database.close();
  const chargesIn = (history: SqliteHistory): (string | number)[][] =>
    history
      .charges({ from: 0, to: 100 }, undefined, 9)
      .map(readCharge)
      .map(({ token, agent, at, basis, cacheRead }) => [token, agent, at, basis, cacheRead]);
  const ofJobs = [
    ['used:1', 'anna', 21, 'unpriced', 5],
    ['used:3', 'anna', 23, 'unpriced', 5],
  ];
  // A start that ends before the charges of live jobs are put leaves an index that lacks them still.
  for (const start of ['first', 'second']) {
    const history = new SqliteHistory(path, 'write');
    const { lacksCharges, watermark } = history.open();
    assert.deepEqual([lacksCharges, watermark], [true, 2], start);
    assert.deepEqual(chargesIn(history), ofJobs, start);
    if (start === 'second') history.put([], 2, undefined, [liveCharge()]);
    history.close();
  }
  const history = new SqliteHistory(path, 'write');
  assert.equal(history.open().lacksCharges, false);
  assert.deepEqual(chargesIn(history), [...ofJobs, ['live:4', 'anna', 24, 'unpriced', 5]]);
  history.close();
});

const liveCharge = (): string => {
  const charge = chargeOf('live', askOf('live', 3), closedAttempt('live', 4, USAGE));
  assert.ok(charge);
  return chargeRow(charge).trimEnd();
};
