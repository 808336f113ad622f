/** The workload on MariaDB, chapter by chapter, and one kill of it with what follows. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import type { TestServer } from '../fakes/mariadb.ts';
import type { Children } from './children.ts';
import { foldersOf, makeFolders } from './folders.ts';
import { recoverTables, type TableCase } from './recovering-tables.ts';
import { chaptersOf, SCRIPTS } from './script.ts';
import { copyTables } from './tables.ts';
import { readDied } from './tally.ts';

/** What one brain does, what it begins with and what it leaves. */
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
    fs.cpSync(before.folders.root, root, { recursive: true });
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

/** Every kind of operation at most so often in each chapter, from its first to its last; commits also half way. */
export function tableKills(chapters: readonly TableChapter[], atMost: number): TableKill[] {
  return chapters.flatMap((chapter) => {
    const places = Map.groupBy(chapter.names.keys(), (index) => chapter.names[index] as string);
    return [...places].flatMap(([name, indexes]) =>
      spread(indexes, atMost).flatMap((index) => {
        const kill = { chapter, at: index + 1, name, torn: false };
        return name === 'sql commit' ? [kill, { ...kill, torn: true }] : [kill];
      }),
    );
  });
}

function spread(items: readonly number[], atMost: number): number[] {
  if (items.length <= atMost) return [...items];
  const step = (items.length - 1) / (atMost - 1);
  return Array.from({ length: atMost }, (_, n) => items[Math.round(n * step)] as number);
}

/** Runs the chapter into the kill, lets another brain follow, and says what is wrong then. */
export async function killTables(
  children: Children,
  root: string,
  server: TestServer,
  kill: TableKill,
): Promise<string[]> {
  const { folders, url } = await beginCase(kill.chapter.before, root, server);
  const end = await children.run(folders, {
    CRASH_CHAPTER: String(kill.chapter.n),
    CRASH_AT: String(kill.at),
    CRASH_TORN: kill.torn ? '1' : '0',
    CRASH_DATABASE: url,
  });
  assert.equal(end.signal, 'SIGKILL', `ended with ${end.code} ${end.stderr}`);
  const died = readDied(folders);
  assert.equal(died.name, kill.name, 'it died at another operation');
  return recoverTables({ folders, url }, died.time + 1);
}
