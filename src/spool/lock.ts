/**
 * The locks of jobs: `incoming/<job>.lock`, a folder with an `owner.json`. A lock keeps others from trying the same job;
 * it does not decide who gets the job, since a rename onto an empty folder replaces it, and agents of other programs make
 * their locks with a bare `mkdir`. The rename of the job's folder decides.
 *
 * K1  A lock is made in `tmp/` and renamed into place, so that it names its owner from the first instant.
 * K2  A lock is removed by renaming it into `tmp/`. Only there its nonce tells whose it is for certain: what turns out to
 *     be somebody else's is put back.
 * K3  The folder of a lock that was released is kept there for the actor's next lock, which gets a nonce of its own: making
 *     and removing folders is what file systems are slowest at.
 */
import { join } from 'node:path';
import type { Actor } from './actor.ts';
import { textOf } from './actor.ts';
import { lockPath, OWNER_FILE } from './layout.ts';
import { isOwnerRecord, type OwnerRecord } from './owner.ts';
import {
  isMissing,
  isTaken,
  orRemoved,
  readPlainRecord,
  removeTree,
  rewritten,
  writeNew,
} from './plain-files.ts';

export interface Lock {
  readonly job: string;
  readonly nonce: string;
}

/** Undefined where the job is locked. */
export async function acquireLock(actor: Actor, job: string): Promise<Lock | undefined> {
  const { env, paths } = actor.spool;
  const place = lockPath(paths, job);
  // An empty folder would be replaced by the rename: it is the lock of an agent that has just made it.
  if (await env.disk.lstat(place)) return undefined;
  const nonce = env.random.hex(8);
  const made = await makeLock(actor, textOf(actor.ownerWith(nonce)));
  try {
    await env.disk.rename(made, place);
    return { job, nonce };
  } catch (error) {
    actor.spareLocks.push(made);
    if (isTaken(error)) return undefined;
    throw error;
  }
}

/** K3. */
async function makeLock(actor: Actor, owner: string): Promise<string> {
  const { disk } = actor.spool.env;
  const spare = actor.spareLocks.pop();
  if (spare !== undefined) {
    const isRewritten = await orRemoved(disk, spare, () => rewritten(disk, join(spare, OWNER_FILE), owner));
    if (isRewritten) return spare;
  }
  const made = actor.temporary('lock');
  await disk.makeNewFolder(made);
  await orRemoved(disk, made, () => writeNew(disk, join(made, OWNER_FILE), owner, { isSynced: false }));
  return made;
}

/** Removes a lock that this actor has acquired, if it still has it. */
export async function releaseLock(actor: Actor, { job, nonce }: Lock): Promise<boolean> {
  const isOurs = async (folder: string): Promise<boolean> => (await nonceIn(actor, folder)) === nonce;
  const aside = await moveAside(actor, job, isOurs);
  if (aside !== undefined) {
    actor.spareLocks.push(aside);
    return true;
  }
  // Somebody has removed the actor's own folder: nobody else would remove a lock whose process lives.
  const { env, paths } = actor.spool;
  if (!(await isOurs(lockPath(paths, job)))) return false;
  const inTmp = await moveAside(actor, job, isOurs, join(paths.tmp, `lock-${nonce}`));
  if (inTmp !== undefined) await removeTree(env.disk, inTmp);
  return inTmp !== undefined;
}

/** Removes the lock of a job that this actor has acquired at some time: what is left when the disk has refused a release. */
export async function releaseOwnLock(actor: Actor, job: string): Promise<void> {
  const found = await ownerIn(actor, lockPath(actor.spool.paths, job));
  if (found?.actor === actor.id) await releaseLock(actor, { job, nonce: found.nonce });
}

/** What a lock looked like when its owner was judged. */
export interface JudgedLock {
  readonly job: string;
  /** Undefined where the lock had no owner that could be read. */
  readonly nonce: string | undefined;
  /** The identity of the lock's folder, which a rename does not change. */
  readonly identity: string;
}

/** Removes a lock whose owner is dead; false where it is gone, or is another one by now. */
export async function breakLock(actor: Actor, judged: JudgedLock): Promise<boolean> {
  const { disk } = actor.spool.env;
  const aside = await moveAside(actor, judged.job, async (folder) => {
    if (judged.nonce !== undefined) return (await nonceIn(actor, folder)) === judged.nonce;
    return (await disk.lstat(folder))?.identity === judged.identity;
  });
  if (aside !== undefined) await removeTree(disk, aside);
  return aside !== undefined;
}

/** K2. Undefined where there is no lock, or another one than is meant. */
async function moveAside(
  actor: Actor,
  job: string,
  isMeant: (folder: string) => Promise<boolean>,
  aside = actor.temporary('old-lock'),
): Promise<string | undefined> {
  const { disk } = actor.spool.env;
  const place = lockPath(actor.spool.paths, job);
  try {
    await disk.rename(place, aside);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  if (await isMeant(aside)) return aside;
  await putBack(actor, aside, place);
  return undefined;
}

/** Somebody may have locked the job meanwhile; then the rename of the job's folder decides between the two. */
async function putBack({ spool }: Actor, aside: string, place: string): Promise<void> {
  try {
    await spool.env.disk.rename(aside, place);
  } catch (error) {
    await removeTree(spool.env.disk, aside);
    if (!isTaken(error)) throw error;
  }
}

const nonceIn = async (actor: Actor, folder: string): Promise<string | undefined> =>
  (await ownerIn(actor, folder))?.nonce;

const ownerIn = ({ spool }: Actor, folder: string): Promise<OwnerRecord | undefined> =>
  readPlainRecord(spool.env.disk, join(folder, OWNER_FILE), isOwnerRecord);
