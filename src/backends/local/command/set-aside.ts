/**
 * Opens the folder of a backend, and begins a copied one anew. Its executions belong to the brain of the original: their processes may run on this
 * machine, under the original folder. They are neither read nor ended from here; a rename keeps them for people.
 */
import { basename, join } from 'node:path';
import type { Env } from '../../../kit/env/env.ts';
import { claimCopy, claimFolder } from '../../../kit/folder-identity.ts';
import type { Layout } from './layout.ts';

export async function openLayout(env: Env, layout: Layout, isCopy: boolean): Promise<void> {
  const { folder, executions, epochs, staging, trash } = layout;
  await env.disk.makeFolder(folder);
  if (isCopy) {
    await setAside(env, layout);
    await claimCopy(env, folder);
  } else await claimFolder(env, folder);
  for (const path of [executions, epochs, staging, trash]) await env.disk.makeFolder(path);
}

async function setAside({ disk, random }: Env, layout: Layout): Promise<void> {
  const { folder, registry, executions, epochs, staging, trash } = layout;
  const copied = join(folder, `copied-${random.hex(4)}`);
  await disk.makeFolder(copied);
  // The registry goes first: without it the rest is not taken for the memory of this backend.
  for (const path of [registry, executions, epochs, staging, trash]) {
    if (await disk.stat(path)) await disk.rename(path, join(copied, basename(path)));
  }
  await disk.syncFolder(folder);
}
