/** Behaviour that both kinds of index share and that the conformance suite cannot reach through a store. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { askOf } from '../../../../test/fakes/folder-maker.ts';
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
}
