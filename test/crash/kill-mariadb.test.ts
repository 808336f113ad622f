/**
 * Kills the brain between the statements of a fixed workload on MariaDB, and at every crash point that it passes.
 * Each kind of statement and each point dies once, spread over the workload, and each kind of a recovery in one of the
 * chapters; `CRASH_ALL=1` takes all.
 * `CRASH_ONLY=text` takes only those whose name contains it and leaves the recoveries alone.
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
import { sampleOfKinds } from './sample.ts';
import {
  killTableRecovery,
  killTables,
  playTables,
  type TableChapter,
  type TableKill,
  type TableRecoveryKill,
  tableKills,
  tableRecoveryKills,
} from './table-cases.ts';

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
const only = process.env['CRASH_ONLY'] ?? '';
const takesAll = process.env['CRASH_ALL'] === '1';

test('the workload passes every crash point on MariaDB and breaks no rule when nobody kills it', async () => {
  chapters = await playTables(children, join(scratch, 'whole'), server);
  assert.deepEqual(await checkTables((chapters.at(-1) as TableChapter).after), []);
  const names = chapters.flatMap((chapter) => chapter.names);
  for (const point of POINTS) assert.ok(names.includes(`point ${point}`), `${point} is never passed`);
  console.log(`# ${names.length} statements and crash points, ${new Set(names).size} distinct names`);
});

test('killed at any statement, nothing acknowledged is lost and nothing runs twice', async () => {
  const kills = tableKills(chapters, takesAll).filter(({ name }) => name.includes(only));
  const problems: string[] = [];
  await eachAtOnce(kills, async (kill) => {
    const found = await killTables(children, folderOf(kill), server, kill).catch(told);
    problems.push(...found.map((problem) => `kill ${titleOf(kill)}: ${problem}`));
  });
  const torn = kills.filter((kill) => kill.torn).length;
  console.log(`# killed ${kills.length} times, ${torn} of them with a commit under way`);
  assert.deepEqual(problems, []);
});

test('killed at any statement of a recovery, the next recovery comes to the same', {
  skip: only !== '',
}, async () => {
  // With work under way that nobody has been told the end of.
  const kills = chapters.map((chapter) => {
    const places = [...chapter.names.keys()].filter((at) => chapter.names[at] === 'sql commit');
    const at = (places[places.length >> 1] as number) + 1;
    return { chapter, at, name: 'sql commit', torn: true };
  });
  const all: TableRecoveryKill[][] = kills.map(() => []);
  await eachAtOnce([...kills.entries()], async ([at, kill]) => {
    all[at] = await tableRecoveryKills(children, join(scratch, `again-${kill.chapter.n}`), server, kill);
  });
  const every = all.flatMap((each, at) => each.map((again) => ({ first: kills[at] as TableKill, again })));
  const chosen = takesAll ? every : sampleOfKinds(every, ({ again }) => again.name);
  const problems: string[] = [];
  await eachAtOnce(chosen, async ({ first, again }) => {
    const found = await killTableRecovery(children, server, again).catch(told);
    problems.push(...found.map((problem) => `kill ${titleOf(first)}, ${problem}`));
  });
  console.log(`# ${kills.length} recoveries, killed ${chosen.length} times of ${every.length}`);
  assert.deepEqual(problems, []);
});

const titleOf = ({ chapter, at, name, torn }: TableKill): string =>
  `${chapter.n}.${at} ${torn ? 'in the middle of' : 'before'} ${name}`;

const folderOf = (kill: TableKill): string => join(scratch, titleOf(kill).replaceAll(/\W+/g, '-'));

const told = (error: Error): string[] => [String(error.stack)];
