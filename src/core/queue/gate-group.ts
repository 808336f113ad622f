/** The jobs that wait at one gate: groups of jobs that what holds up one of them holds up too (gate-lists.ts). */
import { SortedList } from '../../kit/sorted-list.ts';
import { isEarlier } from '../../model/line.ts';
import type { Gate } from '../limits/gate.ts';
import type { JobEntry } from '../state/job-entry.ts';

/** Whether a lane has a free backend. */
export type IsFree = (lane: string) => boolean;

/** The order in which jobs leave a gate. */
export function ahead({ ask: a }: JobEntry, { ask: b }: JobEntry): boolean {
  if (a.spec.priority !== b.spec.priority) return a.spec.priority === 'interactive';
  if (a.spec.score !== b.spec.score) return a.spec.score > b.spec.score;
  return isEarlier(a, b);
}

/** Jobs that pass the same gates and need the same lane. */
export class GateGroup {
  readonly key: string;
  readonly lane: string;
  /** All narrow gates that can hold up its jobs, the narrowest first. */
  readonly gates: readonly Gate[];
  readonly jobs = new SortedList<JobEntry>(ahead);
  /** Where the group waits; undefined while none of its jobs does. */
  list: GateList | undefined;
  /** Jobs that were let through to their lane and have not been claimed yet. */
  readonly passed = new Set<JobEntry>();
  /** Its limits were replaced. */
  isStale = false;

  constructor(key: string, lane: string, gates: readonly Gate[]) {
    this.key = key;
    this.lane = lane;
    this.gates = gates;
  }

  /** Whether the job goes before all jobs of the group. */
  isFirst(entry: JobEntry): boolean {
    const first = this.jobs.first();
    return !first || ahead(entry, first);
  }

  /** A list has its groups in the order of their first jobs: a group leaves it while its first job changes. */
  leaveList(): void {
    this.list?.remove(this);
    this.list = undefined;
  }

  enterList(list: GateList): void {
    this.list = list;
    list.add(this);
  }
}

const firstGoes = (a: GateGroup, b: GateGroup): boolean =>
  ahead(a.jobs.first() as JobEntry, b.jobs.first() as JobEntry);

/** The groups that wait at one gate. */
export class GateList {
  readonly gate: Gate;
  /** A job did not fit into the budget. The list is dropped once nobody waits here and all who did are claimed. */
  isByBudget = false;
  /** The job that did not fit, until something may have changed. */
  unfit: JobEntry | undefined;
  readonly #lanes = new Map<string, SortedList<GateGroup>>();
  /** Jobs that were let through and have not been claimed yet, by lane; also those that waited at another gate. */
  readonly #passed = new Map<string, Set<JobEntry>>();

  constructor(gate: Gate) {
    this.gate = gate;
  }

  get isEmpty(): boolean {
    return this.#lanes.size === 0 && this.#passed.size === 0;
  }

  add(group: GateGroup): void {
    const groups = this.#lanes.get(group.lane) ?? new SortedList<GateGroup>(firstGoes);
    this.#lanes.set(group.lane, groups);
    groups.add(group);
    this.count(group.jobs.size);
  }

  remove(group: GateGroup): void {
    const groups = this.#lanes.get(group.lane);
    groups?.remove(group);
    if (groups?.size === 0) this.#lanes.delete(group.lane);
    this.count(-group.jobs.size);
  }

  /** More or fewer jobs wait here. */
  count(by: number): void {
    this.gate.waiting += by;
  }

  pass(lane: string, entry: JobEntry): void {
    const passed = this.#passed.get(lane);
    if (passed) passed.add(entry);
    else this.#passed.set(lane, new Set([entry]));
  }

  unpass(lane: string, entry: JobEntry): void {
    const passed = this.#passed.get(lane);
    if (passed?.delete(entry) && passed.size === 0) this.#passed.delete(lane);
  }

  passedOf(lane: string): number {
    return this.#passed.get(lane)?.size ?? 0;
  }

  /** Whether at least so many of the jobs that were let through to this lane go before the job. */
  hasAhead(entry: JobEntry, lane: string, count: number): boolean {
    if (this.passedOf(lane) < count) return false;
    let found = 0;
    for (const passed of this.#passed.get(lane) ?? [])
      if (ahead(passed, entry) && ++found >= count) return true;
    return false;
  }

  /** The group that goes next, of lanes that are not in `full`. */
  next(isFree: IsFree, full: ReadonlySet<string>): GateGroup | undefined {
    let best: GateGroup | undefined;
    let bestFree = false;
    for (const [lane, groups] of this.#lanes) {
      if (full.has(lane)) continue;
      const group = groups.first() as GateGroup;
      const free = isFree(lane);
      if (best && (free === bestFree ? !firstGoes(group, best) : !free)) continue;
      best = group;
      bestFree = free;
    }
    return best;
  }

  /** Whether a job waits here that goes before this one. */
  isBehind(entry: JobEntry, lane: string, isFree: IsFree): boolean {
    for (const [other, groups] of this.#lanes) {
      if (other !== lane && !isFree(other)) continue;
      const first = (groups.first() as GateGroup).jobs.first() as JobEntry;
      if (first !== entry && ahead(first, entry)) return true;
    }
    return false;
  }
}
