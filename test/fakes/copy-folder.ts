/** Copies a data folder in place of its original: what tells a copy from it stays behind. */
import fs from 'node:fs';
import { basename, join } from 'node:path';
import { FOLDER_FILES } from '../../src/kit/folder-identity.ts';

const IDENTITY: readonly string[] = Object.values(FOLDER_FILES);

export function copyFolder(from: string, to: string, leaveOut: readonly string[] = []): void {
  const filter = (path: string): boolean => ![...IDENTITY, ...leaveOut].includes(basename(path));
  fs.cpSync(from, to, { recursive: true, filter });
}

/** A copy made of hard links, as `cp -al` makes it: both folders have the same files. */
export function linkFolder(from: string, to: string): void {
  fs.mkdirSync(to);
  for (const entry of fs.readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkFolder(source, target);
    else fs.linkSync(source, target);
  }
}
