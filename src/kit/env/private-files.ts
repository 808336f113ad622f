/**
 * Creates files and folders that only their owner can read: they hold prompts, results and secrets. The modes hold
 * whatever the umask is, and whatever modes an earlier program left behind.
 *
 * A file or folder of another user is left as it is: its mode is not ours to change.
 */
import fs from 'node:fs';
import { join } from 'node:path';

export const FILE_MODE = 0o600;
export const FOLDER_MODE = 0o700;

const PERMISSIONS = 0o777;
const OF_OTHERS = 0o077;
/** A folder with the sticky bit, such as /tmp, is shared on purpose. */
const STICKY = 0o1000;

/** Opens a file; one that is opened for writing is private afterwards. */
export function openPrivate(path: string, flags: string): number {
  const fd = fs.openSync(path, flags, FILE_MODE);
  if (flags !== 'r') makePrivate(fd);
  return fd;
}

/** Gives an open file FILE_MODE. A mode that is right already costs one read of it. */
export function makePrivate(fd: number): void {
  if ((fs.fstatSync(fd).mode & PERMISSIONS) !== FILE_MODE) whereAllowed(() => fs.fchmodSync(fd, FILE_MODE));
}

/** Creates a folder; fails where it exists. */
export function makePrivateFolder(path: string): void {
  fs.mkdirSync(path, { mode: FOLDER_MODE });
  // The umask may have taken permissions of the owner.
  fs.chmodSync(path, FOLDER_MODE);
}

/**
 * Makes a SQLite database private and creates it if it is missing. SQLite gives the mode of the database to the files
 * that it makes beside it. A database that exists is not opened here: closing it would end the POSIX locks that this
 * process may hold on it.
 */
export function makeDatabasePrivate(path: string): void {
  try {
    fs.closeSync(openPrivate(path, 'wx'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  for (const suffix of ['', '-wal', '-shm', '-journal']) closeOne(path + suffix);
}

/** The implementation of Disk.closeToOthers. */
export function closeFolderToOthers(folder: string, isOurs: (name: string) => boolean): boolean {
  let names: string[];
  try {
    names = fs.readdirSync(folder);
  } catch {
    // The folder does not exist yet, or cannot be read: whoever opens it next reports why.
    return true;
  }
  for (const name of names) if (isOurs(name)) closeToOthers(join(folder, name));
  if (names.every(isOurs)) closeOne(folder);
  return (fs.statSync(folder).mode & OF_OTHERS) === 0;
}

/** What is in a folder that others cannot enter needs no look: so a start reads few modes, however full the folder is. */
function closeToOthers(path: string): void {
  const wasOpen = closeOne(path);
  if (wasOpen === 'folder') for (const name of fs.readdirSync(path)) closeToOthers(join(path, name));
}

/** Takes the permissions of others; returns `folder` for a folder that had some. Links are not followed. */
function closeOne(path: string): 'folder' | undefined {
  const stats = fs.lstatSync(path, { throwIfNoEntry: false });
  if (!stats || stats.isSymbolicLink() || (stats.mode & OF_OTHERS) === 0 || (stats.mode & STICKY) !== 0)
    return undefined;
  if (stats.uid === process.getuid?.())
    whereAllowed(() => fs.chmodSync(path, stats.mode & PERMISSIONS & ~OF_OTHERS));
  return stats.isDirectory() ? 'folder' : undefined;
}

/** Some file systems have no modes, and a file that we may write can belong to somebody else. */
function whereAllowed(change: () => void): void {
  try {
    change();
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'EROFS', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
  }
}
