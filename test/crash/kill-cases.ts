/** One kill and what follows from it. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import type { Children } from './children.ts';
import { type Folders, foldersOf, makeFolders } from './folders.ts';
import { type Recovery, recoverFully } from './recovering.ts';
import { readDied } from './tally.ts';

export interface Kill {
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

/** Every operation, and every write once more torn in half. */
export function killsOf(names: readonly string[]): Kill[] {
  return names.flatMap((name, index) => {
    const kill = { at: index + 1, name, torn: false };
    return name.startsWith('write ') ? [kill, { ...kill, torn: true }] : [kill];
  });
}

export const titleOf = ({ at, name, torn }: Kill): string =>
  `${at} ${torn ? 'in the middle of' : 'before'} ${name}`;

/** Runs the workload into the kill; fails unless it died right there. */
export async function killWorkload(children: Children, root: string, kill: Kill): Promise<Folders> {
  const folders = makeFolders(foldersOf(root));
  const end = await children.run(folders, { CRASH_AT: String(kill.at), CRASH_TORN: kill.torn ? '1' : '0' });
  assert.equal(end.signal, 'SIGKILL', `kill ${titleOf(kill)}: ended with ${end.code} ${end.stderr}`);
  assert.equal(end.stderr, '', `kill ${titleOf(kill)}`);
  assert.equal(readDied(folders).name, kill.name, `kill ${kill.at} hit another operation`);
  return folders;
}

export function copyCase(from: Folders, root: string): Folders {
  fs.cpSync(from.root, root, { recursive: true });
  return foldersOf(root);
}

export async function killAndRecover(children: Children, scratch: string, kill: Kill): Promise<KilledCase> {
  const root = join(scratch, `${kill.at}${kill.torn ? '-torn' : ''}`);
  const crashed = await killWorkload(children, root, kill);
  const time = readDied(crashed).time + 1;
  const folders = copyCase(crashed, `${root}-recovered`);
  const recovery = await recoverFully(folders, time);
  if (recovery.problems.length === 0) fs.rmSync(folders.root, { recursive: true });
  return { kill, recovery, crashed, time };
}
