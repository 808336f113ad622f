/** Removes a folder with everything that a command has put into it; links are not followed. */
import fs from 'node:fs';

export function removeFolder(path: string): Promise<void> {
  return fs.promises.rm(path, { recursive: true, force: true });
}
