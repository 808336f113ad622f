/** Examines the current and the previous checkpoint: the manifest, its parts, and every record in them. */
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import { type CheckpointContents, readLines } from '../checkpoint/line.ts';
import { type Manifest, type Part, readManifest } from '../checkpoint/manifest.ts';
import { readPart } from '../checkpoint/merge.ts';
import type { Paths } from '../layout.ts';
import type { Report } from './report.ts';

export type GenerationCheck = 'checkpoint' | 'checkpoint.previous';

/** One of the two checkpoints, with a readable manifest. */
export interface Generation {
  readonly check: GenerationCheck;
  readonly manifest: Manifest;
  /** Undefined where a part is damaged or missing. */
  readonly contents: CheckpointContents | undefined;
}

/** Reads one checkpoint and reports its faults; undefined where it does not exist or its manifest is unreadable. */
export async function examineGeneration(
  disk: Disk,
  paths: Paths,
  check: GenerationCheck,
  report: Report,
): Promise<Generation | undefined> {
  const path = check === 'checkpoint' ? paths.manifest : paths.previousManifest;
  const file = fileOf(check);
  let manifest: Manifest | undefined;
  try {
    manifest = await readManifest(disk, path);
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    if (error.code === 'STORE_TOO_NEW') report.bad('format', error.message, file);
    else report.bad(check, error.message, error.details.position ?? file);
    return undefined;
  }
  if (!manifest) return undefined;
  const contents = await readContents(disk, paths, manifest, check, report);
  if (contents) {
    const { seq, parts } = manifest;
    const records = parts.reduce((sum, part) => sum + part.records, 0);
    report.fine(check, `as of change ${seq}: ${records} records in ${parts.length} parts, all intact`);
  }
  return { check, manifest, contents };
}

export const fileOf = (check: GenerationCheck): string =>
  check === 'checkpoint' ? 'checkpoint.json' : 'checkpoint.previous.json';

async function readContents(
  disk: Disk,
  paths: Paths,
  manifest: Manifest,
  check: GenerationCheck,
  report: Report,
): Promise<CheckpointContents | undefined> {
  const contents: CheckpointContents = { bundles: [], records: [] };
  let isIntact = true;
  for (const part of manifest.parts) {
    try {
      const records = readLines(await readPart(disk, paths, part), contents);
      if (records !== part.records)
        throw new Error(`it has ${records} records, the manifest says ${part.records}`);
    } catch (error) {
      isIntact = false;
      reportFault(error, part, check, report);
    }
  }
  return isIntact ? contents : undefined;
}

function reportFault(error: unknown, part: Part, check: GenerationCheck, report: Report): void {
  const file = `checkpoints/${part.name}`;
  if (diskErrorCode(error) === 'ENOENT') {
    report.bad(check, `${file} is missing, although ${fileOf(check)} lists it`, file);
  } else if (error instanceof OrchdError) {
    const failedCheck = error.code === 'STORE_TOO_NEW' ? 'format' : check;
    report.bad(failedCheck, error.message, error.details.position ?? file);
  } else if (diskErrorCode(error) !== undefined) {
    throw error;
  } else {
    report.bad(check, `${file} cannot be read: ${(error as Error).message}`, file);
  }
}
