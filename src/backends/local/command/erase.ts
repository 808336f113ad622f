/**
 * Erases what an ended execution has said: of its folder only a tombstone is left, so that the token is still refused.
 *
 * After a crash the folder may have both, the tombstone and the end: the next scan erases the rest (`isBeingErased`).
 * `owner.json` goes before `exit.json`: an execution without an end would count as running while its keeper lives.
 */
import { join } from 'node:path';
import type { Disk, Env } from '../../../kit/env/env.ts';
import { writeRecord } from '../../../kit/record-file.ts';
import type { TimestampRecord, TokenPaths } from './layout.ts';
import { removeFolder } from './remove.ts';

/** Whether an execution that has ended was to be erased when a process died. */
export async function isBeingErased(disk: Disk, { tombstone }: TokenPaths): Promise<boolean> {
  return (await disk.stat(tombstone)) !== undefined;
}

export async function eraseExecution(env: Env, paths: TokenPaths, record: TimestampRecord): Promise<void> {
  const { folder, tombstone, owner, exit } = paths;
  await writeRecord(env, tombstone, record);
  const last = [owner, exit];
  for (const name of await env.disk.list(folder)) {
    const path = join(folder, name);
    if (path !== tombstone && !last.includes(path)) await removeFolder(path);
  }
  for (const path of last) {
    await env.disk.syncFolder(folder);
    await removeFolder(path);
  }
  await env.disk.syncFolder(folder);
}
