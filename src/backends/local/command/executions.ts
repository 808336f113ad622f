/**
 * What became of a token, read from its folder each time it is asked: there is no second account of it in
 * memory that could be wrong.
 */
import { dirname, join } from 'node:path';
import { type Disk, diskErrorCode, type Env } from '../../../kit/env/env.ts';
import { pause } from '../../../kit/pause.ts';
import { isAlive, isPresent, isProcessIdentity, isThisBoot } from '../../../kit/process/identity.ts';
import { type Mark, signalMarked } from '../../../kit/process/marked.ts';
import { readRecord, writeRecord } from '../../../kit/record-file.ts';
import {
  type ExitRecord,
  filesIn,
  isDated,
  isExitRecord,
  isOwnerRecord,
  type Layout,
  type OwnerRecord,
  type TokenPaths,
} from './layout.ts';
import { removeFolder } from './remove.ts';

export type Look =
  | { readonly is: 'absent' }
  | { readonly is: 'tombstone'; readonly at: number }
  | { readonly is: 'running'; readonly owner: OwnerRecord }
  | { readonly is: 'ended'; readonly exit: ExitRecord; readonly owner: OwnerRecord | undefined }
  /** Its supervisor is dead and has not written an end: the command may run. */
  | { readonly is: 'orphaned'; readonly owner: OwnerRecord | undefined };

const isTaken = (error: unknown): boolean =>
  ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(diskErrorCode(error) ?? '');

export async function lookAt(disk: Disk, paths: TokenPaths): Promise<Look> {
  const owner = await readRecord(disk, paths.owner, isOwnerRecord);
  // Asked before its end is looked for: whoever is dead by now has written all it ever will.
  const alive = owner !== undefined && isAlive(owner);
  const exit = await readRecord(disk, paths.exit, isExitRecord);
  if (exit) return { is: 'ended', exit, owner };
  if (alive) return { is: 'running', owner };
  if (owner) return { is: 'orphaned', owner };
  const tombstone = await readRecord(disk, paths.tombstone, isDated);
  if (tombstone) return { is: 'tombstone', at: tombstone.at };
  return (await disk.stat(paths.folder)) ? { is: 'orphaned', owner: undefined } : { is: 'absent' };
}

/** Takes the token's place for good, as L1 of the layout demands; false when it is taken. */
export async function forbidStart(env: Env, layout: Layout, paths: TokenPaths): Promise<boolean> {
  const { clock, disk, random } = env;
  const staging = join(layout.staging, `b-${random.hex(8)}`);
  const files = filesIn(staging);
  await disk.makeFolder(staging);
  await writeRecord(env, files.tombstone, { at: clock.now() });
  try {
    await disk.rename(staging, paths.folder);
  } catch (error) {
    await removeFolder(staging);
    if (isTaken(error)) return false;
    throw error;
  }
  await disk.syncFolder(dirname(paths.folder));
  return true;
}

const SETTLE_TRIES = 20;
const SETTLE_PAUSE_MS = 50;

/**
 * Ends what a dead supervisor left behind and writes its end. False when something of it does not die; it is
 * tried again when somebody asks again.
 */
export async function settle(
  env: Env,
  paths: TokenPaths,
  mark: Mark,
  owner: OwnerRecord | undefined,
): Promise<boolean> {
  // Nothing outlives a boot.
  let quiet = owner && !isThisBoot(owner.boot) ? 1 : 0;
  for (let tries = 0; tries < SETTLE_TRIES; tries++) {
    quiet = (await killLeftovers(env.disk, paths, mark)) ? 0 : quiet + 1;
    // Twice, with a pause: a process that was just being started has its mark by then.
    if (quiet === 2) {
      const ordered = (await env.disk.stat(paths.kill)) !== undefined;
      await writeRecord(env, paths.exit, lostRecord(env.clock.now(), ordered));
      return true;
    }
    await pause(env.timers, SETTLE_PAUSE_MS);
  }
  return false;
}

/** Whether there was anything to kill. */
async function killLeftovers(disk: Disk, paths: TokenPaths, mark: Mark): Promise<boolean> {
  const child = await readRecord(disk, paths.child, isProcessIdentity);
  return signalMarked(mark, child, 'SIGKILL');
}

const lostRecord = (now: number, ordered: boolean): ExitRecord => ({
  code: null,
  signal: null,
  why: ordered ? 'killed' : 'lost',
  stderr_tail: '',
  ended_at: now,
});

/** Whether the maker of a staging folder may still be at it. */
export function isBeingMade(name: string): boolean {
  const match = /^s-(\d+)-(\d*)$/.exec(name);
  return match !== null && isPresent(Number(match[1]), match[2] as string);
}
