/** What a brain leaves behind when it stops, for the person who stops it. */
import type { EngineView } from '../core/turn.ts';

export interface LeftWork {
  /** Jobs that wait. */
  readonly waiting: number;
  /** Attempts on backends that go on by themselves and keep their results, by the kind of backend. */
  readonly goingOn: Readonly<Record<string, number>>;
  /** Attempts that end with this process. */
  readonly cutOff: number;
  /** Jobs whose outcome is not known. */
  readonly unknown: number;
}

/** `endsWith`: whether the workers of a pool end with this process. */
export function leftWork({ state, queue }: EngineView, endsWith: (pool: string) => boolean): LeftWork {
  const goingOn: Record<string, number> = {};
  let cutOff = 0;
  for (const { open, job } of state.open.values()) {
    if (!open || open.state === 'unknown' || job.state === 'stale') continue;
    const info = queue.fleet.backends.get(open.backend)?.info;
    const isCutOff = !info?.keepsResults || (info.home !== undefined && endsWith(info.home.pool));
    if (isCutOff) cutOff++;
    else goingOn[info.kind] = (goingOn[info.kind] ?? 0) + 1;
  }
  return { waiting: state.counts.queued, goingOn, cutOff, unknown: state.counts.stale };
}
