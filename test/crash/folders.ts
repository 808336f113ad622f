/** The folders of one case: the data folder, and beside it what must outlive any harm done to it. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Folders {
  readonly root: string;
  readonly data: string;
  /** The executor's own machine. */
  readonly ledger: string;
  /** Log segments that were removed, for the checks: the whole log is what they replay. */
  readonly archive: string;
  readonly acks: string;
  /** Written by a child right before it kills itself: which operation it was about to do, and when. */
  readonly died: string;
}

export const foldersOf = (root: string, data = join(root, 'data')): Folders => ({
  root,
  data,
  ledger: join(root, 'ledger'),
  archive: join(root, 'archive'),
  acks: join(root, 'acks.jsonl'),
  died: join(root, 'died.json'),
});

export function makeFolders(folders: Folders): Folders {
  for (const path of [folders.root, folders.ledger, folders.archive]) fs.mkdirSync(path, { recursive: true });
  return folders;
}

/** A kill leaves what was written in memory, so its tests need no disk; the real ones say so themselves. */
export function scratchFolder(prefix: string): string {
  return fs.mkdtempSync(join(process.env['CRASH_SCRATCH'] ?? memoryFolder(), prefix));
}

/** A folder in memory, where a sync costs nothing; on disk where memory is short. */
export function memoryFolder(): string {
  const memory = '/dev/shm';
  const usable =
    fs.existsSync(memory) && fs.statfsSync(memory).bavail * fs.statfsSync(memory).bsize > 2 ** 30;
  return usable ? memory : tmpdir();
}

/** Keeps a log segment that is about to be removed. */
export function keepSegment(folders: Folders, path: string): void {
  const name = /^log\/(\d{16}\.log)$/.exec(path)?.[1];
  const from = join(folders.data, path);
  if (name === undefined || !fs.existsSync(from)) return;
  const to = join(folders.archive, name);
  fs.rmSync(to, { force: true });
  // The folders may be on two file systems.
  fs.copyFileSync(from, to);
}
