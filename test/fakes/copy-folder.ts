/** Copies a data folder in place of its original: what tells a copy from it stays behind. */
import fs from 'node:fs';
import { basename } from 'node:path';
import { FOLDER_FILES } from '../../src/kit/folder-identity.ts';

const IDENTITY: readonly string[] = Object.values(FOLDER_FILES);

export function copyFolder(from: string, to: string, leaveOut: readonly string[] = []): void {
  const filter = (path: string): boolean => ![...IDENTITY, ...leaveOut].includes(basename(path));
  fs.cpSync(from, to, { recursive: true, filter });
}
