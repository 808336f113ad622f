/** Which ticks of a schedule are due, by its rule for those that nobody was there for. Pure. */
import type { Ticks } from '../../kit/ticks.ts';
import type { ScheduleRecord } from '../../model/schedule.ts';

/** The most ticks that are made up for. */
export const MAX_CATCH_UP = 1000;
/** With `catch_up: none`, a tick is not missed while it is no older than this: a restart takes some seconds. */
export const GRACE_MS = 60_000;

export interface DueTicks {
  /** The ticks to be decided, the earliest first. */
  readonly ticks: readonly number[];
  /** Earlier ones are left out. */
  readonly hasMissed: boolean;
  /** The last tick that is due; there is none where this is undefined. */
  readonly upTo: number | undefined;
  /** The first tick that is not due yet; there is none any more where this is undefined. */
  readonly next: number | undefined;
}

export function dueTicks(
  { tickedTo, catchUp }: Pick<ScheduleRecord, 'tickedTo' | 'catchUp'>,
  pattern: Ticks,
  now: number,
): DueTicks {
  const first = pattern.after(tickedTo);
  if (first === undefined || first > now)
    return { ticks: [], hasMissed: false, upTo: undefined, next: first };
  const second = pattern.after(first);
  const isOnly = second === undefined || second > now;
  const found = isOnly ? [first] : pattern.latest(tickedTo, now, catchUp === 'all' ? MAX_CATCH_UP : 1);
  const upTo = found.at(-1) ?? first;
  const isTooOld = catchUp === 'none' && now - upTo > GRACE_MS;
  const ticks = isTooOld ? [] : found;
  const next = isOnly ? second : pattern.after(upTo);
  return { ticks, hasMissed: ticks[0] !== first, upTo, next };
}
