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

/** Every kind of operation at most so often, from its first to its last; commits also half way. */
export function tableKills(chapters: readonly TableChapter[], atMost: number): TableKill[] {
  const all = chapters.flatMap((chapter) =>
    chapter.names.map((name, index) => ({ chapter, at: index + 1, name, torn: false })),
  );
  const some = [...Map.groupBy(all, ({ name }) => name).values()].flatMap((kills) => spread(kills, atMost));
  return some.flatMap((kill) => (kill.name === 'sql commit' ? [kill, { ...kill, torn: true }] : [kill]));
}

function spread<T>(items: readonly T[], atMost: number): T[] {
  if (items.length <= atMost) return [...items];
  const step = (items.length - 1) / (atMost - 1);
  return Array.from({ length: atMost }, (_, n) => items[Math.round(n * step)] as T);
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

/** The same with a second kill in the recovery that follows, once at each kind of operation of it. */
export async function killRecoveries(
  children: Children,
  root: string,
  server: TestServer,
  kill: TableKill,
): Promise<{ readonly kills: number; readonly problems: string[] }> {
  const crashed = await crashAt(children, join(root, 'crashed'), server, kill);
  const again = { CRASH_MODE: 'recover', CRASH_START: String(crashed.time) };
  const file = join(root, 'names.json');
  const whole = await beginCase(crashed.case, join(root, 'whole'), server);
  const end = await children.run(whole.folders, { ...again, CRASH_DATABASE: whole.url, CRASH_NAMES: file });
  assert.equal(end.code, 0, end.stderr);
  const names = JSON.parse(fs.readFileSync(file, 'utf8')) as string[];
  const problems: string[] = [];
  const kinds = [...new Set(names)];
  for (const name of kinds) {
    const at = names.indexOf(name) + 1;
    const copy = await beginCase(crashed.case, join(root, String(at)), server);
    const second = await crash(children, copy, { ...again, CRASH_AT: String(at) }, name);
    const found = await recoverTables(second.case, second.time);
    problems.push(...found.map((problem) => `then before ${name} of the recovery: ${problem}`));
  }
  return { kills: kinds.length, problems };
}
