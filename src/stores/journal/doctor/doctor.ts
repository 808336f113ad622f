/**
 * The doctor: examines a data folder without opening it as a store, and reports what is intact, what is damaged, and
 * what can be salvaged.
 *
 * D1  The doctor writes nothing and keeps no lock. `options.isHeld` finds out whether a process holds the folder.
 *     Without `isHeld` the doctor takes the lock and releases it at once; Disk.lock may write a file beside the lock.
 * D2  Apart from that the doctor never opens the file `lock`: POSIX drops all locks of a process on a file when the
 *     process closes it once, so a brain in the same process would lose its lock.
 * D3  Damage is detected by the same readers that recovery uses; the doctor only continues where recovery stops.
 */
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import { paths } from '../layout.ts';
import { type Diagnosis, Examination, type ExamineOptions } from './examination.ts';
import type { DoctorFinding, FolderFacts, Verdict } from './report.ts';
import { type SalvagePlan, writePrefix } from './salvage.ts';

export type { Diagnosis, DoctorFinding, ExamineOptions, FolderFacts, SalvagePlan, Verdict };

/** A running brain replaces files while they are read. The examination is then repeated; this is the maximum in all. */
const MAX_EXAMINATIONS = 3;

export async function examine(disk: Disk, folder: string, options: ExamineOptions = {}): Promise<Diagnosis> {
  for (let count = 1; ; count++) {
    const examination = new Examination(disk, paths(folder), options);
    const before = await fileNames(disk, folder);
    try {
      const diagnosis = await examination.run();
      const isCertain = !diagnosis.inUse || diagnosis.verdict !== 'bad';
      if (isCertain || count === MAX_EXAMINATIONS || (await fileNames(disk, folder)) === before)
        return diagnosis;
    } catch (error) {
      if (count === MAX_EXAMINATIONS || diskErrorCode(error) !== 'ENOENT' || !examination.inUse) throw error;
    }
  }
}

/** The names of all checkpoint parts and segments; they differ where a file was removed in between. */
async function fileNames(disk: Disk, folder: string): Promise<string> {
  const where = paths(folder);
  return [...(await disk.list(where.parts)), ...(await disk.list(where.log))].join();
}

/** Writes everything that is intact to a new folder and returns what that is. The original is only read. */
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
    throw new OrchdError('STORE_CORRUPT', 'nothing in this folder can be salvaged', {
      position: 'checkpoint.json:0',
    });
  }
  await writePrefix(disk, paths(from), examination.prefix, to);
  return plan;
}
