/** Kills a recovery at each of its operations and lets another one follow. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import type { Children } from './children.ts';
import { copyCase, type KilledCase, titleOf } from './kill-cases.ts';
import { recoverFully } from './recovering.ts';
import { recoveredHash } from './state-hash.ts';
import { readDied } from './tally.ts';

/** The operations of a recovery without what differs from folder to folder: numbers, and how often in a row. */
function shapeOf(names: readonly string[]): string {
  const plain = names.map((name) => name.replaceAll(/\d{8,}/g, 'N'));
  const groups: string[] = [];
  for (const name of plain) {
    groups.push(name);
    // A segment or part is read in a handful of calls; another one after it adds nothing new.
    const length = READ_CALLS.length;
    const last = groups.slice(-length).join();
    if (last === groups.slice(-2 * length, -length).join()) groups.splice(-length);
  }
  return groups.join('\n');
}

const READ_CALLS = ['open-read', 'size', 'read', 'close'];

/** A second kill, in the recovery after a first one. */
export interface RecoveryKill {
  readonly first: KilledCase;
  readonly root: string;
  /** Right before the n-th operation of the recovery, from 1. */
  readonly at: number;
  readonly name: string;
}

/** Returns one killed case for every distinct sequence of operations that recoveries have made. */
export function shapesOf(cases: readonly KilledCase[]): KilledCase[] {
  const shapes = new Map<string, KilledCase>();
  for (const killed of cases.toSorted(
    (a, b) => a.kill.chapter.n - b.kill.chapter.n || a.kill.at - b.kill.at,
  )) {
    const shape = shapeOf(killed.recovery.shape);
    if (!shapes.has(shape)) shapes.set(shape, killed);
  }
  return [...shapes.values()];
}

/** Lets a recovery run to see what it does: each of its operations is a place to die at. */
export async function recoveryKills(
  children: Children,
  root: string,
  first: KilledCase,
): Promise<RecoveryKill[]> {
  fs.mkdirSync(root);
  const folders = copyCase(first.crashed, join(root, 'whole'));
  const list = join(root, 'names.json');
  const env = { CRASH_MODE: 'recover', CRASH_START: String(first.time), CRASH_NAMES: list };
  const end = await children.run(folders, env);
  assert.equal(end.code, 0, end.stderr);
  const names = JSON.parse(fs.readFileSync(list, 'utf8')) as string[];
  return names.map((name, index) => ({ first, root, at: index + 1, name }));
}

export async function killRecovery(children: Children, kill: RecoveryKill): Promise<string[]> {
  const { first, at, name } = kill;
  const folders = copyCase(first.crashed, join(kill.root, String(at)));
  const env = { CRASH_MODE: 'recover', CRASH_START: String(first.time), CRASH_AT: String(at) };
  const end = await children.run(folders, env);
  const title = `kill ${titleOf(first.kill)}, then before ${at} ${name} of the recovery`;
  assert.equal(end.signal, 'SIGKILL', `${title}: ended with ${end.code} ${end.stderr}`);
  assert.equal(readDied(folders).name, name, title);
  const problems: string[] = [];
  const hash = await recoveredHash(folders.data, first.time);
  if (hash !== first.recovery.hash) problems.push('another state than after one crash');
  const recovery = await recoverFully(folders, first.time + 1);
  if (recovery.ends !== first.recovery.ends) problems.push('the jobs come to another end');
  problems.push(...recovery.problems);
  if (problems.length === 0) fs.rmSync(folders.root, { recursive: true });
  return problems.map((problem) => `${title}: ${problem}`);
}
