/**
 * Kills the brain at every operation of a fixed workload, and again at every operation of the recoveries that
 * follow. Of operations of one kind `npm test` takes one of 48, of those of recoveries one, spread over chapters and
 * recoveries. `CRASH_ALL=1` takes them all. `CRASH_ONLY=text` takes only the operations
 * whose name contains it and leaves the recoveries alone.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CRASHPOINTS } from '../../src/kit/crashpoint.ts';
import { keptFolder } from '../fakes/kept-folder.ts';
import { Children, eachAtOnce } from './children.ts';
import { foldersOf, scratchFolder } from './folders.ts';
import {
  type Chapter,
  folderOf,
  type KilledCase,
  killAndRecover,
  killsOf,
  playChapters,
  titleOf,
} from './kill-cases.ts';
import { killRecovery, type RecoveryKill, recoveryKills, shapesOf } from './kill-recovery.ts';
import { checkCase } from './recovering.ts';
import { sampleOfKinds } from './sample.ts';

const only = process.env['CRASH_ONLY'];
const scratch = scratchFolder('orchd-crash-');
const children = new Children(scratch);
let chapters: Chapter[] = [];
let names: string[] = [];
const cases: KilledCase[] = [];
let failed = false;
/** Every kill that was made, by name. */
const LIST = join(keptFolder(), 'orchd-crash-kills.txt');
const list: string[] = [];

after(() => {
  if (only === undefined) {
    fs.writeFileSync(LIST, `${list.join('\n')}\n`);
    say(`every kill by name: ${LIST}`);
  }
  if (failed) say(`the folders of the failed cases are in ${scratch}`);
  else fs.rmSync(scratch, { recursive: true, force: true });
});

const say = (text: string): void => console.log(`# ${text}`);

test('the workload passes every crash point and breaks no rule when nobody kills it', async () => {
  chapters = await playChapters(children, scratch);
  const { problems } = await checkCase(foldersOf(join(scratch, `chapter-${chapters.length - 1}`)));
  assert.deepEqual(problems, []);
  names = chapters.flatMap((chapter) => chapter.names);
  for (const point of CRASHPOINTS) assert.ok(names.includes(`point ${point}`), `${point} is never passed`);
  say(
    `${chapters.length} chapters, ${names.length} operations and crash points, ${new Set(names.map(kindOf)).size} distinct names`,
  );
});

test('killed at any operation, nothing acknowledged is lost and nothing runs twice', async () => {
  const kills = chosen(chapters.flatMap(killsOf), SAMPLE);
  const problems: string[] = [];
  const startedAt = performance.now();
  await eachAtOnce(kills, async (kill) => {
    const killed = await killAndRecover(children, scratch, kill).catch((error: Error) => {
      problems.push(`kill ${titleOf(kill)}: ${error.stack}`);
    });
    if (!killed) return;
    cases.push(killed);
    list.push(titleOf(kill));
    for (const problem of killed.recovery.problems) problems.push(`kill ${titleOf(kill)}: ${problem}`);
  });
  const whole = cases.filter(({ kill }) => !kill.torn);
  const points = whole.filter(({ kill }) => kill.name.startsWith('point '));
  const allPoints = names.filter((name) => name.startsWith('point '));
  say(
    `killed at ${whole.length - points.length} of ${names.length - allPoints.length} operations, ` +
      `${points.length} of ${allPoints.length} crash points, ${cases.length - whole.length} writes torn in half, ` +
      since(startedAt),
  );
  for (const line of summary(cases)) say(line);
  failed ||= problems.length > 0;
  assert.deepEqual(problems, []);
  assert.equal(cases.length, kills.length);
  const kinds = (of: readonly string[]): number => new Set(of.map(kindOf)).size;
  if (only === undefined) assert.equal(kinds(whole.map(({ kill }) => kill.name)), kinds(names));
});

test('killed at any operation of a recovery, the next recovery comes to the same', {
  skip: only !== undefined,
}, async () => {
  const startedAt = performance.now();
  const shapes = shapesOf(cases);
  const all = new Map<KilledCase, RecoveryKill[]>();
  await eachAtOnce(shapes, async (first) => {
    all.set(first, await recoveryKills(children, join(scratch, `again-${folderOf(first.kill)}`), first));
  });
  const operations = shapes.flatMap((first) => all.get(first) ?? []);
  const kills = chosen(operations, RECOVERY_SAMPLE);
  const problems: string[] = [];
  let done = 0;
  await eachAtOnce(kills, async (kill) => {
    problems.push(...(await killRecovery(children, kill)));
    list.push(`${titleOf(kill.first.kill)}, then ${kill.at} before ${kill.name}`);
    done++;
  });
  say(
    `${shapes.length} shapes of recovery, killed at ${done} of ${operations.length} operations of theirs, ` +
      since(startedAt),
  );
  failed ||= problems.length > 0;
  assert.deepEqual(problems, []);
});

const takesAll = process.env['CRASH_ALL'] === '1';
/** Of so many operations of one kind `npm test` kills at one, and at one of each kind at least. */
const SAMPLE = 48;
/** Recoveries are much alike: of all operations of one kind it kills at one. */
const RECOVERY_SAMPLE = undefined;

function chosen<K extends { readonly name: string; readonly torn?: boolean }>(
  kills: readonly K[],
  every: number | undefined,
): K[] {
  if (only !== undefined) return kills.filter(({ name }) => name.includes(only));
  return takesAll ? [...kills] : sampleOfKinds(kills, ({ name, torn }) => `${kindOf(name)} ${torn}`, every);
}

const since = (startedAt: number): string => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;

const kindOf = (name: string): string => name.replaceAll(/\d{8,}/g, 'N');

/** Counts the kills by kind of operation. */
function summary(all: readonly KilledCase[]): string[] {
  const counts = new Map<string, number>();
  for (const { kill } of all) {
    const key = kindOf(kill.name) + (kill.torn ? ' (torn)' : '');
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].sort().map(([name, count]) => `${String(count).padStart(5)}  ${name}`);
}
