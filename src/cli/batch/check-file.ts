/** The first reading of a file of jobs: finds everything that is wrong with it before anything is submitted. */
import { FaultList } from './fault-list.ts';
import { checkLine, type JobDefaults, LineFault } from './line-check.ts';
import { LineNames } from './line-names.ts';
import type { SourceFile } from './source-file.ts';

export interface CheckedFile {
  /** Lines that are not blank. */
  readonly lines: number;
  readonly faults: FaultList;
  readonly names: LineNames;
}

/** `onProgress` is called with the number of lines so far. */
export async function checkFile(
  file: SourceFile,
  defaults: JobDefaults,
  onProgress: (lines: number) => void,
): Promise<CheckedFile> {
  const faults = new FaultList();
  const names = new LineNames();
  let lines = 0;
  for await (const block of file.check()) {
    for (const line of block) {
      lines++;
      try {
        names.add(checkLine(line, defaults));
      } catch (error) {
        if (!(error instanceof LineFault)) throw error;
        faults.add({ line: line.number, text: error.message });
      }
    }
    onProgress(lines);
  }
  for (const fault of names.faults()) faults.add(fault);
  return { lines, faults, names };
}
