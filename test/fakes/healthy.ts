/** Asks the doctor about a data folder that a fault has left: every such folder is healthy, or the doctor is wrong. */
import type { Disk } from '../../src/kit/env/env.ts';
import { examine } from '../../src/stores/journal/doctor/doctor.ts';

/** The problems that the doctor finds in a folder that no process holds; none where there is no data folder yet. */
export async function doctorProblems(disk: Disk, folder: string): Promise<string[]> {
  const { findings, isDataFolder } = await examine(disk, folder, { isHeld: async () => false });
  if (!isDataFolder) return [];
  return findings
    .filter(({ verdict }) => verdict === 'bad')
    .map(({ check, sentence, position }) => `the doctor: ${check}: ${sentence} [${position ?? ''}]`);
}
