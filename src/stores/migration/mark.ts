/** The mark on the target of a migration: while it is there the target is incomplete, and no brain opens it. */
import type { BrainRecord } from '../../model/records.ts';

export interface MigrationMark {
  /** The location of the source in texts for people. */
  readonly from: string;
  /** The owner id of the brain whose records are migrated. */
  readonly owner: string;
  /**
   * `<epoch>.<seq>` of the source when the migration began; it differs once a brain has run on the source again. Empty
   * where nothing that was written may be kept.
   */
  readonly state: string;
}

export const markOf = (from: string, { owner, epoch }: BrainRecord, seq: number): MigrationMark => ({
  from,
  owner,
  state: `${epoch}.${seq}`,
});

export const invalidated = (mark: MigrationMark): MigrationMark => ({ ...mark, state: '' });

/**
 * Decides what to do with an unfinished target: continue, start again from nothing, or refuse it because its records
 * belong to another brain.
 */
export function compareMarks(
  found: MigrationMark,
  expected: MigrationMark,
): 'continue' | 'restart' | 'foreign' {
  if (found.owner !== expected.owner) return 'foreign';
  return found.state === expected.state ? 'continue' : 'restart';
}
