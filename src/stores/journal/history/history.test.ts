/** Behaviour that both kinds of index share and that the conformance suite cannot reach through a store. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { askOf } from '../../../../test/fakes/folder-maker.ts';
import type { BlobRef } from '../../../model/body.ts';
import { FRESH_JOB } from '../../../model/moves.ts';
import { uidOf } from '../../../model/records.ts';
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
