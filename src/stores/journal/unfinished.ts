/** The mark on a data folder that is the target of an unfinished migration; see ../migration/mark.ts. */
import type { Disk } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Paths } from './layout.ts';

export const isUnfinished = async (disk: Disk, paths: Paths): Promise<boolean> =>
  (await disk.stat(paths.moving)) !== undefined;

export async function refuseUnfinished(disk: Disk, paths: Paths): Promise<void> {
  if (!(await isUnfinished(disk, paths))) return;
  throw new OrchdError('STORE_UNFINISHED', 'a move into this data folder was not finished');
}
