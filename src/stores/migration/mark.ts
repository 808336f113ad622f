/** The mark on a store that a move writes to: as long as it is there, the store is not whole. */
import type { BrainRecord } from '../../model/records.ts';

export interface Mark {
  /** Where the records come from, in words. */
  readonly from: string;
  readonly owner: string;
  /** The source as it was: another one means that it has gone on since. Empty where nothing counts that was written. */
  readonly state: string;
}

export const markOf = (from: string, { owner, epoch }: BrainRecord, seq: number): Mark => ({
  from,
  owner,
  state: `${epoch}.${seq}`,
});

export const spoilt = (mark: Mark): Mark => ({ ...mark, state: '' });

/** What a half-made target means to a move. */
export function judge(found: Mark, wanted: Mark): 'continue' | 'anew' | 'foreign' {
  if (found.owner !== wanted.owner) return 'foreign';
  return found.state === wanted.state ? 'continue' : 'anew';
}
