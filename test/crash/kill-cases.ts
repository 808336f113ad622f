/** A kill of the workload at one operation, and the recovery after it. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { copyFolder } from '../fakes/copy-folder.ts';
import type { Children } from './children.ts';
import { type Folders, foldersOf, makeFolders } from './folders.ts';
import { type Recovery, recoverFully } from './recovering.ts';
import { chaptersOf, SCRIPTS } from './script.ts';
import { readDied } from './tally.ts';

/** The part of the workload that one brain does; `before` are the folders it begins with. */
export interface Chapter {
  readonly n: number;
  readonly before: Folders | undefined;
  readonly names: readonly string[];
}

export interface Kill {
  readonly chapter: Chapter;
  /** Right before the n-th operation, from 1. */
  readonly at: number;
  readonly name: string;
  /** In the middle of that write. */
  readonly torn: boolean;
}

export interface KilledCase {
  readonly kill: Kill;
  readonly recovery: Recovery;
  /** The folders as the kill left them. */
  readonly crashed: Folders;
  readonly time: number;
}

/** Plays the chapters one after the other, each on a copy of what the one before left. */
export async function playChapters(children: Children, scratch: string): Promise<Chapter[]> {
  const chapters: Chapter[] = [];
  for (const n of chaptersOf(SCRIPTS.steady).keys()) {
    const before = n === 0 ? undefined : foldersOf(join(scratch, `chapter-${n - 1}`));
    const folders = beginCase(before, join(scratch, `chapter-${n}`));
    const file = join(scratch, `names-${n}.json`);
    const end = await children.run(folders, { CRASH_CHAPTER: String(n), CRASH_NAMES: file });
    assert.equal(end.code, 0, end.stderr);
    chapters.push({ n, before, names: JSON.parse(fs.readFileSync(file, 'utf8')) as string[] });
  }
  return chapters;
}

/** Every operation, and every write once more torn in half. */
export function killsOf(chapter: Chapter): Kill[] {
  return chapter.names.flatMap((name, index) => {
    const kill = { chapter, at: index + 1, name, torn: false };
    return name.startsWith('write ') ? [kill, { ...kill, torn: true }] : [kill];
  });
}

export const titleOf = ({ chapter, at, name, torn }: Kill): string =>
  `${chapter.n}.${at} ${torn ? 'in the middle of' : 'before'} ${name}`;

export const folderOf = ({ chapter, at, torn }: Kill): string => `${chapter.n}.${at}${torn ? '-torn' : ''}`;

/** Runs the chapter into the kill; fails unless it died right there. */
async function killWorkload(children: Children, root: string, kill: Kill): Promise<Folders> {
  const folders = beginCase(kill.chapter.before, root);
  const end = await children.run(folders, {
    CRASH_CHAPTER: String(kill.chapter.n),
    CRASH_AT: String(kill.at),
    CRASH_TORN: kill.torn ? '1' : '0',
  });
  assert.equal(end.signal, 'SIGKILL', `kill ${titleOf(kill)}: ended with ${end.code} ${end.stderr}`);
  assert.equal(end.stderr, '', `kill ${titleOf(kill)}`);
  assert.equal(readDied(folders).name, kill.name, `kill ${titleOf(kill)} hit another operation`);
  return folders;
}

function beginCase(before: Folders | undefined, root: string): Folders {
  return before ? copyCase(before, root) : makeFolders(foldersOf(root));
}

export function copyCase(from: Folders, root: string): Folders {
  copyFolder(from.root, root);
  return foldersOf(root);
}

export async function killAndRecover(children: Children, scratch: string, kill: Kill): Promise<KilledCase> {
  const root = join(scratch, folderOf(kill));
  const crashed = await killWorkload(children, root, kill);
  const time = readDied(crashed).time + 1;
  const folders = copyCase(crashed, `${root}-recovered`);
  const recovery = await recoverFully(folders, time);
  if (recovery.problems.length === 0) fs.rmSync(folders.root, { recursive: true });
  return { kill, recovery, crashed, time };
}
