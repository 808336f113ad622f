/** Decides which processes of a worker pool are started and ended, so that it has as many as it should. */

export interface SlotView {
  readonly n: number;
  /** `down`: it has ended by itself, and is started again after a pause. */
  readonly is: 'up' | 'down' | 'ending';
  /** It was started for the worker pool that there is now, and not for an earlier one of the same name. */
  readonly isCurrent: boolean;
}

/** What the row of the worker pool wants. `kill`: none, at once. */
export type Wish = { readonly is: 'keep'; readonly count: number } | { readonly is: 'kill' };

export interface SizePlan {
  readonly start: readonly number[];
  /** They are told to finish what they have begun. */
  readonly finish: readonly number[];
  readonly kill: readonly number[];
}

/** `max`: there are never more, those that end included. */
export function planSize(slots: readonly SlotView[], wish: Wish, max: number): SizePlan {
  if (wish.is === 'kill') return { start: [], finish: [], kill: slots.map(({ n }) => n) };
  const others = slots.filter(({ is, isCurrent }) => is !== 'ending' && !isCurrent);
  const staying = slots.filter(({ is, isCurrent }) => is !== 'ending' && isCurrent);
  const excess = Math.max(0, staying.length - wish.count);
  // Those that do not run cost nothing to give up; then the highest numbers, so that the others keep their names.
  const byCost = [...staying].sort((a, b) => Number(a.is === 'up') - Number(b.is === 'up') || b.n - a.n);
  const finish = [...others, ...byCost.slice(0, excess)].map(({ n }) => n);
  const missing = Math.min(wish.count - staying.length, max - slots.length);
  return { start: freeNumbers(slots, missing), finish, kill: [] };
}

function freeNumbers(slots: readonly SlotView[], count: number): number[] {
  const taken = new Set(slots.map(({ n }) => n));
  const free: number[] = [];
  for (let n = 1; free.length < count; n++) if (!taken.has(n)) free.push(n);
  return free;
}
