/**
 * The state of a token, read from its folder on every call. Nothing of it is kept in memory, so that the files are the
 * only truth. The command can reach them: what is no plain file counts as missing. Also writes the one end that the brain
 * itself may write: a tombstone.
 */
import { dirname, join } from 'node:path';
import { type Disk, diskErrorCode, type Env } from '../../../kit/env/env.ts';
import {
  isAlive,
  isPresent,
  isProcessIdentity,
  type ProcessIdentity,
} from '../../../kit/process/identity.ts';
import { readPlainFileRecord, writeRecord } from '../../../kit/record-file.ts';
import {
  type ExitRecord,
  filesIn,
  heirFolder,
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
  /**
   * The keeper is dead and has not written `exit.json`: the command may still run. `heirs`: how many keepers have taken
   * it over since it was begun.
   */
  | { readonly is: 'orphaned'; readonly owner: OwnerRecord | undefined; readonly heirs: number };

const isTaken = (error: unknown): boolean =>
  ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(diskErrorCode(error) ?? '');

export async function readTokenState(disk: Disk, paths: TokenPaths): Promise<TokenState> {
  const state = await readFiles(disk, paths);
  // The folder may have come into place after its files were looked for. It comes complete (L1 of layout.ts), so that a
  // second look finds them.
  return state.is === 'orphaned' && !state.owner ? readFiles(disk, paths) : state;
}

async function readFiles(disk: Disk, paths: TokenPaths): Promise<TokenState> {
  const owner = await readPlainFileRecord(disk, paths.owner, isOwnerRecord);
  // Checked before `exit.json` is read: a keeper that is dead by now has written all it ever will.
  const isKept = owner !== undefined && isAlive(owner);
  const exit = await readPlainFileRecord(disk, paths.exit, isExitRecord);
  if (exit) return { is: 'ended', exit, owner };
  if (isKept) return { is: 'running', owner };
  if (owner) return takenOver(disk, paths, owner);
  const tombstone = await readPlainFileRecord(disk, paths.tombstone, isTimestampRecord);
  if (tombstone) return { is: 'tombstone', record: tombstone };
  return (await disk.stat(paths.folder)) ? takenOver(disk, paths, undefined) : { is: 'absent' };
}

/** The state of an execution whose first keeper is dead (L4 of layout.ts). */
async function takenOver(disk: Disk, paths: TokenPaths, owner: OwnerRecord | undefined): Promise<TokenState> {
  let heirs = 0;
  let last: ProcessIdentity | undefined;
  for (;;) {
    const file = filesIn(heirFolder(paths, heirs + 1)).owner;
    const heir = await readPlainFileRecord(disk, file, isProcessIdentity);
    if (!heir) break;
    heirs++;
    last = heir;
  }
  const isKept = last !== undefined && isAlive(last);
  // Read again: the last heir may have ended since it was read the first time.
  const exit = heirs > 0 ? await readPlainFileRecord(disk, paths.exit, isExitRecord) : undefined;
  if (exit) return { is: 'ended', exit, owner };
  if (isKept && last) return { is: 'running', owner: { ...(owner ?? UNREADABLE), ...last, kept: true } };
  return { is: 'orphaned', owner, heirs };
}

/** Stands for an `owner.json` that cannot be read. */
const UNREADABLE: Omit<OwnerRecord, keyof ProcessIdentity> = {
  token: '',
  job_id: '',
  model: undefined,
  split: 'line',
  started_at: 0,
};

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

/** Whether the keeper that is named in a staging folder's name still runs, and so may still fill it. */
export function isBeingMade(name: string): boolean {
  const match = /^s-(\d+)-(\d*)(?:-\d+)?$/.exec(name);
  return match !== null && isPresent(Number(match[1]), match[2] as string);
}
