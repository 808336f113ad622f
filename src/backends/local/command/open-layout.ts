/**
 * Opens the folder of a backend, and begins a copied one anew: its executions belong to the brain of the original, and
 * their processes may run on this machine. They are neither read nor ended from here.
 */
import type { Env } from '../../../kit/env/env.ts';
import { claimCopy, claimFolder, refuseHardLinks, setAside } from '../../../kit/folder-identity.ts';
import type { Layout } from './layout.ts';

export async function openLayout(env: Env, layout: Layout, isCopy: boolean): Promise<void> {
  const { folder, registry, executions, epochs, staging, trash } = layout;
  await env.disk.makeFolder(folder);
  if (isCopy) {
    await refuseHardLinks(env.disk, folder, [folder]);
    // The registry goes first: without it the rest is not taken for the memory of this backend.
    await setAside(env, folder, [registry, executions, epochs, staging, trash]);
    await claimCopy(env, folder);
  } else await claimFolder(env, folder);
  for (const path of [executions, epochs, staging, trash]) await env.disk.makeFolder(path);
}
