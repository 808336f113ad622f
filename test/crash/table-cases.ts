/** The workload on MariaDB, chapter by chapter, and one kill of it with what follows. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { copyFolder } from '../fakes/copy-folder.ts';
import type { TestServer } from '../fakes/mariadb.ts';
import type { Children } from './children.ts';
import { foldersOf, makeFolders } from './folders.ts';
import { recoverTables, type TableCase } from './recovering-tables.ts';
import { chaptersOf, SCRIPTS } from './script.ts';
import { copyTables } from './tables.ts';
import { readDied } from './tally.ts';

/** The part of the workload that one brain does, with the databases it begins with and leaves. */
export interface TableChapter {
  readonly n: number;
  readonly before: TableCase | undefined;
  readonly after: TableCase;
  readonly names: readonly string[];
}

export interface TableKill {
  readonly chapter: TableChapter;
  /** Right before the n-th operation, from 1. */
  readonly at: number;
  readonly name: string;
  /** With the operation on its way to the server. */
  readonly torn: boolean;
}

async function beginCase(
  before: TableCase | undefined,
  root: string,
  server: TestServer,
): Promise<TableCase> {
  const folders = makeFolders(foldersOf(root));
  const url = await server.database();
  if (before) {
    copyFolder(before.folders.root, root);
    await copyTables(before.url, url);
  }
  return { folders, url };
}

/** Plays the chapters one after the other, each on a copy of what the one before left. */
export async function playTables(
  children: Children,
  scratch: string,
  server: TestServer,
): Promise<TableChapter[]> {
  const chapters: TableChapter[] = [];
  for (const n of chaptersOf(SCRIPTS.steady).keys()) {
    const before = chapters.at(-1)?.after;
    const after = await beginCase(before, join(scratch, String(n)), server);
    const file = join(scratch, `names-${n}.json`);
    const env = { CRASH_CHAPTER: String(n), CRASH_NAMES: file, CRASH_DATABASE: after.url };
    const end = await children.run(after.folders, env);
    assert.equal(end.code, 0, end.stderr);
    chapters.push({ n, before, after, names: JSON.parse(fs.readFileSync(file, 'utf8')) as string[] });
  }
  return chapters;
}

/**
 * Every kind of operation, commits also half way: all of each kind, or one. That one is the first, the middle or the last,
 * by turns from kind to kind, so that together they spread over the workload.
 */
export function tableKills(chapters: readonly TableChapter[], takesAll: boolean): TableKill[] {
  const all = chapters.flatMap((chapter) =>
    chapter.names.map((name, index) => ({ chapter, at: index + 1, name, torn: false })),
  );
  const kinds = [...Map.groupBy(all, ({ name }) => name).values()];
  const some = takesAll
    ? all
    : kinds.map((kills, kind) => kills[Math.round(((kind % 3) * (kills.length - 1)) / 2)] as TableKill);
  return some.flatMap((kill) => (kill.name === 'sql commit' ? [kill, { ...kill, torn: true }] : [kill]));
}

/** The database and folders after a kill, and a moment after the kill. */
interface Crashed {
  readonly case: TableCase;
  readonly time: number;
}

/** Runs a child into its kill; fails unless it died right there. */
async function crash(
  children: Children,
  { folders, url }: TableCase,
  env: Record<string, string>,
  name: string,
): Promise<Crashed> {
  const end = await children.run(folders, { CRASH_DATABASE: url, ...env });
  assert.equal(end.signal, 'SIGKILL', `ended with ${end.code} ${end.stderr}`);
  const died = readDied(folders);
  assert.equal(died.name, name, 'it died at another operation');
  return { case: { folders, url }, time: died.time + 1 };
}

async function crashAt(
  children: Children,
  root: string,
  server: TestServer,
  { chapter, at, name, torn }: TableKill,
): Promise<Crashed> {
  const fresh = await beginCase(chapter.before, root, server);
  const env = { CRASH_CHAPTER: String(chapter.n), CRASH_AT: String(at), CRASH_TORN: torn ? '1' : '0' };
  return crash(children, fresh, env, name);
}

/** Runs the chapter into the kill, lets another brain follow, and says what is wrong then. */
export async function killTables(
  children: Children,
  root: string,
  server: TestServer,
  kill: TableKill,
): Promise<string[]> {
  const crashed = await crashAt(children, root, server, kill);
  return recoverTables(crashed.case, crashed.time);
}

/** A second kill, in the recovery after a first one. */
export interface TableRecoveryKill {
  readonly root: string;
  readonly crashed: Crashed;
  /** Right before the n-th operation of the recovery, from 1. */
  readonly at: number;
  readonly name: string;
}

/** Runs the chapter into the kill, and a recovery to see what it does: the first of each kind of its operations. */
export async function tableRecoveryKills(
  children: Children,
  root: string,
  server: TestServer,
  kill: TableKill,
): Promise<TableRecoveryKill[]> {
  const crashed = await crashAt(children, join(root, 'crashed'), server, kill);
  const file = join(root, 'names.json');
  const whole = await beginCase(crashed.case, join(root, 'whole'), server);
  const env = { ...recoverAt(crashed), CRASH_DATABASE: whole.url, CRASH_NAMES: file };
  const end = await children.run(whole.folders, env);
  assert.equal(end.code, 0, end.stderr);
  const names = JSON.parse(fs.readFileSync(file, 'utf8')) as string[];
  return [...new Set(names)].map((name) => ({ root, crashed, at: names.indexOf(name) + 1, name }));
}

const recoverAt = ({ time }: Crashed): Record<string, string> => ({
  CRASH_MODE: 'recover',
  CRASH_START: String(time),
});

/** Kills a recovery, lets another brain follow, and says what is wrong then. */
export async function killTableRecovery(
  children: Children,
  server: TestServer,
  { root, crashed, at, name }: TableRecoveryKill,
): Promise<string[]> {
  const copy = await beginCase(crashed.case, join(root, String(at)), server);
  const second = await crash(children, copy, { ...recoverAt(crashed), CRASH_AT: String(at) }, name);
  const found = await recoverTables(second.case, second.time);
  return found.map((problem) => `then before ${name} of the recovery: ${problem}`);
}
