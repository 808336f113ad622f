/**
 * Work that waits to be claimed was allowed when it was recorded. Rules and mode may forbid it by now, and nobody has begun
 * it: it goes back to the queue, where it is denied, or waits for another mode, with the reason.
 */
import { jobKindOf } from '../../model/governance.ts';
import { startsNone } from '../governance/governance.ts';
import { whyDenied } from '../scheduling/denied.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { takeBack } from './progress.ts';

/** Takes back what is forbidden of work that nobody has claimed. Returns the rest. */
export function takeBackForbidden(turn: Turn, unclaimed: readonly JobEntry[]): JobEntry[] {
  return unclaimed.filter((entry) => {
    const isAllowed = !isForbidden(turn, entry);
    if (!isAllowed) takeBack(turn, entry, 'not-run');
    return isAllowed;
  });
}

function isForbidden(turn: Turn, entry: JobEntry): boolean {
  const kind = jobKindOf(entry.ask.spec);
  if (kind !== undefined && startsNone(turn.state.governance, kind)) return true;
  return whyDenied(turn, entry) !== undefined;
}
