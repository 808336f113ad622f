/**
 * The doctor: looks at a data folder from the outside and says what is intact, what is not, and what can be saved.
 *
 * D1  Nothing is written and no lock is kept. Whether the folder is held is asked of the one who calls; without an
 *     answer from there it is locked for an instant, which a disk may do by writing a file beside the lock.
 * D2  The file `lock` is never opened otherwise: closing it would drop the lock of a brain in the same process.
 * D3  Verdicts on damage come from the readers that recovery uses; the doctor only goes on where recovery stops.
 */
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import { paths } from '../layout.ts';
import { type Diagnosis, Examination, type ExamineOptions } from './examination.ts';
import type { DoctorFinding, FolderFacts, Verdict } from './report.ts';
import { type SalvagePlan, writePrefix } from './salvage.ts';

export type { Diagnosis, DoctorFinding, ExamineOptions, FolderFacts, SalvagePlan, Verdict };

/** A running brain moves files while they are read: then the look is repeated, this often at most. */
const LOOKS = 3;

export async function examine(disk: Disk, folder: string, options: ExamineOptions = {}): Promise<Diagnosis> {
  for (let look = 1; ; look++) {
    const examination = new Examination(disk, paths(folder), options);
    const before = await checkpointSeen(disk, folder);
    try {
      const diagnosis = await examination.run();
      const isCalm = !diagnosis.inUse || diagnosis.verdict !== 'bad';
      if (isCalm || look === LOOKS || (await checkpointSeen(disk, folder)) === before) return diagnosis;
    } catch (error) {
      if (look === LOOKS || diskErrorCode(error) !== 'ENOENT' || !examination.inUse) throw error;
    }
  }
}

/** Changes whenever files may have been removed. */
async function checkpointSeen(disk: Disk, folder: string): Promise<string> {
  const where = paths(folder);
  return [...(await disk.list(where.parts)), ...(await disk.list(where.log))].join();
}

/** Writes what is intact to a new folder and says what that is. The original is only read. */
export async function salvage(
  disk: Disk,
  from: string,
  to: string,
  options: ExamineOptions = {},
): Promise<SalvagePlan> {
  const examination = new Examination(disk, paths(from), options);
  const { isDataFolder, inUse, salvage: plan } = await examination.run();
  if (!isDataFolder) throw new OrchdError('NOT_FOUND', `${from} is not a data folder`);
  if (inUse) throw new OrchdError('STORE_LOCKED', 'a process holds this data folder; stop it first');
  if (!plan || !examination.prefix) {
    throw new OrchdError('STORE_CORRUPT', 'nothing in this folder is whole enough to be saved', {
      position: 'checkpoint.json:0',
    });
  }
  await writePrefix(disk, paths(from), examination.prefix, to);
  return plan;
}
