/** The golden data move from one store to the other with all that they hold. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { migrate as bringTablesUp } from '../../src/stores/mariadb/tables.ts';
import { orchd } from '../flow/cli-process.ts';
import { assertContents } from './v2-contents.ts';
import { copyOfJournal, copyOfTables, newDatabase, newFolder, open } from './v2-kit.ts';

interface Report {
  readonly hash: string;
  readonly live: number;
  readonly ended: number;
  readonly attempts: number;
  readonly bodies: number;
  readonly others: number;
}

async function migrate(from: string, to: string): Promise<Report> {
  const { code, out, err } = await orchd(['migrate', '--from', from, '--to', to, '--json']);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Report;
}

/** A move reads tables of the newest version only. */
async function bringUp(url: string): Promise<void> {
  const sql = await connector(url)();
  await bringTablesUp(sql);
  await sql.close();
}

/** Live jobs, ended jobs, attempts, bodies beside the records, records that belong to no job. */
const COUNTS = [18, 30, 45, 2, 22];

const counts = ({ live, ended, attempts, bodies, others }: Report): number[] => [
  live,
  ended,
  attempts,
  bodies,
  others,
];

test('version 2: a journal moves to a database and back', async (t) => {
  const source = copyOfJournal();
  // The index of ended jobs is derived and not part of the data: a start makes it.
  const { brain } = await open(t, source);
  await brain.list();
  await brain.stop();
  const [url, folder] = [await newDatabase(), newFolder()];
  const there = await migrate(`journal:${source}`, url);
  const back = await migrate(url, `journal:${folder}`);
  assert.deepEqual(counts(there), COUNTS);
  assert.equal(back.hash, there.hash);
  for (const place of [url, folder]) await assertContents(await open(t, place));
});

test('version 2: a database moves to a journal and back', async (t) => {
  const [url, folder] = [await newDatabase(), newFolder()];
  const source = await copyOfTables();
  await bringUp(source);
  const there = await migrate(source, `journal:${folder}`);
  const back = await migrate(`journal:${folder}`, url);
  assert.deepEqual(counts(there), COUNTS);
  assert.equal(back.hash, there.hash);
  for (const place of [url, folder]) await assertContents(await open(t, place));
});
