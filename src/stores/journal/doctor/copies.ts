/** Tells whether a start would refuse the folder, or a folder in it, as a copy; nothing in such a folder is damaged. */
import { join, relative } from 'node:path';
import type { Disk } from '../../../kit/env/env.ts';
import { type FolderProblem, folderProblem } from '../../../kit/folder-identity.ts';
import type { Report } from './report.ts';

const SENTENCES: Readonly<Record<FolderProblem, string>> = {
  copied:
    'orchd refuses to start: this is a copy of another folder, or was moved; if it is a copy or a restored backup, start ' +
    'it once with --this-is-a-copy',
  linked:
    'orchd refuses to start: this folder shares files with another one by hard links; remove the other one, or copy this ' +
    'one with `cp -a` and start the copy once with --this-is-a-copy',
};

export async function reportCopies(disk: Disk, folder: string, report: Report): Promise<void> {
  for (const claimed of await claimedFolders(disk, folder)) {
    if (!(await disk.stat(claimed))?.isFolder) continue;
    const problem = await folderProblem(disk, claimed);
    if (problem) report.warn('start', SENTENCES[problem], relative(folder, claimed) || '.');
  }
}

/** The folders that a server claims when it starts: the data folder, one for each backend of commands, and its pool. */
async function claimedFolders(disk: Disk, folder: string): Promise<string[]> {
  const executions = join(folder, 'executions');
  const names = (await disk.stat(executions))?.isFolder ? await disk.list(executions) : [];
  const backends = names.map((name) => join(executions, name));
  return [folder, ...backends, join(folder, 'pool')];
}
