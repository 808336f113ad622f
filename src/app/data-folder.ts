/** Closes the data folder to other users of the machine before anything in it is used. */
import type { Disk } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';

/** Names that orchd itself uses in a data folder, with the suffixes of SQLite and of temporary files. */
const OWN_NAME =
  /^((lock|tokens\.lock|history\.sqlite)(-wal|-shm|-journal|\.damaged)?|tokens\.json(\.tmp)?|checkpoint(\.previous)?\.json|checkpoint\.tmp|folder\.(id|json)|moving\.(json|tmp)|checkpoints|log|blobs|session-keys|executions|gateways?|pool|upstreams)$/;

/** `lost+found` is made with a file system: a folder that holds it is a disk of its own, not one shared with others. */
export const isOwnName = (name: string): boolean => OWN_NAME.test(name) || name === 'lost+found';

/**
 * A folder that holds foreign files too, or belongs to another user, is left as it is, with a warning: orchd's own files
 * in it are private all the same.
 */
export async function secureDataFolder(disk: Disk, folder: string, logger: Logger): Promise<void> {
  if ((await disk.closeToOthers?.(folder, isOwnName)) ?? true) return;
  logger.warn('other users of this machine can list the data folder', {
    reason:
      'it belongs to another user or holds foreign files, so its mode was not changed; those of orchd are private',
  });
}
