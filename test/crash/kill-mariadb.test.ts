/**
 * Kills the brain between the statements of a fixed workload on MariaDB, and at every crash point that it passes.
 * Each kind of statement and each point dies a few times, spread over the workload; `CRASH_ALL=1` takes all.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { CRASHPOINTS } from '../../src/kit/crashpoint.ts';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { Children, eachAtOnce } from './children.ts';
import { scratchFolder } from './folders.ts';
import { checkTables } from './recovering-tables.ts';
import { killTables, playTables, type TableChapter, tableKills } from './table-cases.ts';

const scratch = scratchFolder('orchd-crash-mariadb-');
const children = new Children(scratch);
let server: OwnServer;
let chapters: TableChapter[] = [];

before(async () => {
  server = await ownMariaDb(scratch);
});
after(async () => {
  await server.stop();
  fs.rmSync(scratch, { recursive: true, force: true });
});

/** Rows are always up to date: there is nothing to check point by point. */
const POINTS = CRASHPOINTS.filter((point) => !point.startsWith('checkpoint:'));
const AT_MOST = process.env['CRASH_ALL'] === '1' ? Number.POSITIVE_INFINITY : 2;

test('the workload passes every crash point on MariaDB and breaks no rule when nobody kills it', async () => {
  chapters = await playTables(children, join(scratch, 'whole'), server);
  assert.deepEqual(await checkTables((chapters.at(-1) as TableChapter).after), []);
  const names = chapters.flatMap((chapter) => chapter.names);
  for (const point of POINTS) assert.ok(names.includes(`point ${point}`), `${point} is never passed`);
  console.log(`# ${names.length} statements and crash points, ${new Set(names).size} distinct names`);
});

test('killed at any statement, nothing acknowledged is lost and nothing runs twice', async () => {
  const kills = tableKills(chapters, AT_MOST);
  const problems: string[] = [];
  await eachAtOnce(kills, async (kill) => {
    const title = `${kill.chapter.n}.${kill.at} ${kill.torn ? 'in the middle of' : 'before'} ${kill.name}`;
    const found = await killTables(
      children,
      join(scratch, title.replaceAll(/\W+/g, '-')),
      server,
      kill,
    ).catch((error: Error) => [String(error.stack)]);
    problems.push(...found.map((problem) => `kill ${title}: ${problem}`));
  });
  const torn = kills.filter((kill) => kill.torn).length;
  console.log(`# killed ${kills.length} times, ${torn} of them with a commit under way`);
  assert.deepEqual(problems, []);
});
