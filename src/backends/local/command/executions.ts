/**
 * The state of a token, read from its folder on every call. Nothing of it is kept in memory, so that the files are the
 * only truth. Also writes the two ends that the brain itself may write: a tombstone, and the end of an orphan.
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
  isExitRecord,
  isOwnerRecord,
  isTimestampRecord,
  type Layout,
  type OwnerRecord,
  type TimestampRecord,
  type TokenPaths,
} from './layout.ts';
import { removeFolder } from './remove.ts';

export type TokenState =
  | { readonly is: 'absent' }
  | { readonly is: 'tombstone'; readonly record: TimestampRecord }
  | { readonly is: 'running'; readonly owner: OwnerRecord }
  | { readonly is: 'ended'; readonly exit: ExitRecord; readonly owner: OwnerRecord | undefined }
  /** The supervisor is dead and has not written `exit.json`: the command may still run. */
  | { readonly is: 'orphaned'; readonly owner: OwnerRecord | undefined };

const isTaken = (error: unknown): boolean =>
  ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(diskErrorCode(error) ?? '');

export async function readTokenState(disk: Disk, paths: TokenPaths): Promise<TokenState> {
  const state = await readFiles(disk, paths);
  // The folder may have come into place after its files were looked for. It comes complete (L1 of layout.ts), so that a
  // second look finds them.
  return state.is === 'orphaned' && !state.owner ? readFiles(disk, paths) : state;
}

async function readFiles(disk: Disk, paths: TokenPaths): Promise<TokenState> {
  const owner = await readRecord(disk, paths.owner, isOwnerRecord);
  // Checked before `exit.json` is read: a supervisor that is dead by now has written all it ever will.
  const alive = owner !== undefined && isAlive(owner);
  const exit = await readRecord(disk, paths.exit, isExitRecord);
  if (exit) return { is: 'ended', exit, owner };
  if (alive) return { is: 'running', owner };
  if (owner) return { is: 'orphaned', owner };
  const tombstone = await readRecord(disk, paths.tombstone, isTimestampRecord);
  if (tombstone) return { is: 'tombstone', record: tombstone };
  return (await disk.stat(paths.folder)) ? { is: 'orphaned', owner: undefined } : { is: 'absent' };
}

/** Puts a tombstone in the token's place, as L1 of layout.ts demands; false when the token's folder exists already. */
export async function forbidStart(
  env: Env,
  layout: Layout,
  paths: TokenPaths,
  record: TimestampRecord,
): Promise<boolean> {
  const { disk, random } = env;
  const staging = join(layout.staging, `b-${random.hex(8)}`);
  const files = filesIn(staging);
  await disk.makeFolder(staging);
  await writeRecord(env, files.tombstone, record);
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

const KILL_TRIES = 20;
const KILL_PAUSE_MS = 50;

/**
 * Kills the processes that a dead supervisor left behind and writes `exit.json` for it. False when a process does not
 * die; the next call tries again.
 */
export async function endOrphan(
  env: Env,
  paths: TokenPaths,
  mark: Mark,
  owner: OwnerRecord | undefined,
): Promise<boolean> {
  // A process of an earlier boot cannot be alive: one search is enough then.
  let emptySearches = owner && !isThisBoot(owner.boot) ? 1 : 0;
  for (let tries = 0; tries < KILL_TRIES; tries++) {
    emptySearches = (await killLeftovers(env.disk, paths, mark)) ? 0 : emptySearches + 1;
    // Two searches with a pause between: a process that is just being started has its mark by the second.
    if (emptySearches === 2) {
      const ordered = (await env.disk.stat(paths.kill)) !== undefined;
      await writeRecord(env, paths.exit, orphanExit(env.clock.now(), ordered));
      return true;
    }
    await pause(env.timers, KILL_PAUSE_MS);
  }
  return false;
}

/** Returns whether there was anything to kill. */
async function killLeftovers(disk: Disk, paths: TokenPaths, mark: Mark): Promise<boolean> {
  const child = await readRecord(disk, paths.child, isProcessIdentity);
  return signalMarked(mark, child, 'SIGKILL');
}

const orphanExit = (now: number, ordered: boolean): ExitRecord => ({
  code: null,
  signal: null,
  why: ordered ? 'killed' : 'lost',
  stderr_tail: '',
  ended_at: now,
});

/** Whether the supervisor that is named in a staging folder's name still runs, and so may still fill it. */
export function isBeingMade(name: string): boolean {
  const match = /^s-(\d+)-(\d*)$/.exec(name);
  return match !== null && isPresent(Number(match[1]), match[2] as string);
}
