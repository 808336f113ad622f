/** The places of jobs in line. */
import type { AskRecord } from './records.ts';

/** Where a job stands in line, before all that came later: jobs below another one stand at the place of the topmost. */
export const placeInLine = ({ line, n }: Pick<AskRecord, 'line' | 'n'>): number => line ?? n;

/** Whether the first job stands before the second one. Jobs at the same place go as they were admitted. */
export function isEarlier(a: Pick<AskRecord, 'line' | 'n'>, b: Pick<AskRecord, 'line' | 'n'>): boolean {
  const [first, second] = [placeInLine(a), placeInLine(b)];
  return first === second ? a.n < b.n : first < second;
}
