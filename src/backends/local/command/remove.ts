/** Removes a folder with everything in it, whatever a command has put there; links are not followed. */
import fs from 'node:fs';

export function removeFolder(path: string): Promise<void> {
  return fs.promises.rm(path, { recursive: true, force: true });
}
