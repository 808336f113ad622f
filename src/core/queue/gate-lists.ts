/**
 * The jobs that wait at narrow gates, parked as `quota`. They have left their lanes, so that a pick does not meet them,
 * however many they are.
 *
 * W1  Jobs leave a gate in order: interactive before batch, then by score, then as they were admitted. Only a job whose
 *     lane has no free backend is passed by jobs of other lanes.
 * W2  A job that comes while others wait at a gate waits behind those that its order puts before it.
 * W3  Jobs that pass the same gates and need the same lane are a group: what holds up the first holds up all. A group
 *     waits at one gate as a whole, so that it goes from gate to gate at the cost of one job.
 * W4  A gate at which groups wait is freed (`#freed`), or the first of them would not pass it now.
 */
import type { Gate } from '../limits/gate.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { GateGroup, GateList, type IsFree } from './gate-group.ts';

export class GateLists {
  readonly #lists = new Map<Gate, GateList>();
  readonly #groups = new Map<string, GateGroup>();
  /** Lists from which a job may leave. */
  readonly #freed = new Set<GateList>();
  /** Lists whose first job did not fit into the budget. */
  readonly #unfit = new Set<GateList>();
  /** Groups of former limits, whose jobs are put into new groups; the last is `#late`, if there is one. */
  readonly #stale = new Set<GateGroup>();
  /** Jobs that came while there were stale groups. */
  #late: GateGroup | undefined;
  readonly #onWait: (gate: Gate) => void;

  /** `onWait` is called when jobs begin to wait at a gate. */
  constructor(onWait: (gate: Gate) => void) {
    this.#onWait = onWait;
  }

  /** The number of jobs that wait at gates. */
  get size(): number {
    let size = 0;
    for (const { gate } of this.#lists.values()) size += gate.waiting;
    for (const group of this.#stale) size += group.jobs.size;
    return size;
  }

  get hasFreed(): boolean {
    return this.#freed.size > 0 || this.#stale.size > 0;
  }

  /** `gates` are all narrow gates that can hold up the job, the narrowest first; `at` is the one that does, for `why`. */
  park(entry: JobEntry, lane: string, gates: readonly Gate[], at: Gate, why: WaitsFor): void {
    const group = this.#groupOf(lane, gates);
    const list = this.#listOf(at);
    const isFirst = group.isFirst(entry);
    if (isFirst) group.leaveList();
    group.jobs.add(entry);
    if (isFirst) this.#enter(group, list);
    else group.list?.count(1);
    if (why !== 'running') list.isByBudget = true;
    if (why === 'budget') {
      list.unfit = entry;
      this.#unfit.add(list);
    }
    entry.quota = group;
    entry.parked = 'quota';
  }

  /** The job goes to its lane at once: it counts as let through, so that no lane has more jobs than may run. */
  letIn(entry: JobEntry, lane: string, gates: readonly Gate[]): void {
    const group = this.#groupOf(lane, gates);
    entry.quota = group;
    this.#keepRoom(group, entry);
  }

  /** A job that becomes ready while the jobs of former limits are put into new groups: it comes after those. */
  parkLate(entry: JobEntry): boolean {
    if (this.#stale.size === 0) return false;
    this.#late ??= new GateGroup('', '', []);
    this.#late.isStale = true;
    this.#stale.add(this.#late);
    const late = this.#late;
    late.jobs.add(entry);
    entry.quota = late;
    entry.parked = 'quota';
    return true;
  }

  /** The gate may let more through than before. */
  free(gate: Gate): void {
    const list = this.#lists.get(gate);
    if (!list || gate.waiting === 0) return;
    list.unfit = undefined;
    this.#unfit.delete(list);
    this.#freed.add(list);
  }

  /** Jobs may cost less than before, or may be run elsewhere. */
  freeUnfit(): void {
    for (const { gate } of this.#unfit) this.free(gate);
    this.#unfit.clear();
  }

  /** The job leaves its gate for good, whether it waits there or was let through and was not claimed yet. */
  leave(entry: JobEntry): void {
    const group = entry.quota;
    if (!(group instanceof GateGroup)) return;
    entry.quota = undefined;
    if (group.passed.has(entry)) this.#unpass(group, entry);
    else if (group.isStale) group.jobs.remove(entry);
    else this.#removeWaiting(group, entry);
    this.#dropEmpty(group);
  }

  /** Whether the gate has no room for a job of this lane that has not waited, or others there go before it. */
  isFull(gate: Gate, entry: JobEntry, lane: () => string, isFree: IsFree): boolean {
    if (gate.room <= 0) return true;
    const list = this.#lists.get(gate);
    if (!list) return false;
    // A job that was in its lane already may go before those that were let through: its order alone counts.
    return list.isBehind(entry, lane(), isFree) || list.hasAhead(entry, lane(), gate.room);
  }

  /** Whether jobs that wait for the budget of the gate go before this one. */
  isBehind(gate: Gate, entry: JobEntry, laneOf: () => string, isFree: IsFree): boolean {
    const list = this.#lists.get(gate);
    if (!list) return false;
    const lane = laneOf();
    const hasPassed = isLetThrough(entry);
    return (
      (!hasPassed && list.isByBudget && list.hasAhead(entry, lane, 1)) || list.isBehind(entry, lane, isFree)
    );
  }

  /** The next jobs that gates let through, after at most `atMost` moves; each must be put into its lane. */
  *letThrough(isFree: IsFree, atMost: number): Generator<JobEntry> {
    let moves = 0;
    for (const list of this.#freed) {
      const full = new Set<string>();
      for (;;) {
        const group = list.gate.room > 0 ? list.next(isFree, full) : undefined;
        if (!group) break;
        if (moves++ === atMost) return;
        const gate = this.#obstacle(group, isFree);
        if (gate === list.gate) full.add(group.lane);
        else if (gate) {
          group.leaveList();
          this.#enter(group, this.#listOf(gate));
        } else yield this.#pass(group);
      }
      this.#freed.delete(list);
      this.#dropList(list);
    }
  }

  /** Jobs that waited at gates of former limits, at most `atMost`; each must be parked anew or put into its lane. */
  *takeStale(atMost: number): Generator<JobEntry> {
    let taken = 0;
    for (const group of this.#stale) {
      for (let entry = group.jobs.first(); entry; entry = group.jobs.first()) {
        if (taken++ === atMost) return;
        group.jobs.remove(entry);
        entry.quota = undefined;
        entry.parked = undefined;
        yield entry;
      }
      this.#stale.delete(group);
      if (group === this.#late) this.#late = undefined;
    }
  }

  /** All limits were replaced: every job passes other gates now. Those that were let through come back from their lanes. */
  replaceAll(leaveLane: (entry: JobEntry) => void): void {
    for (const group of this.#groups.values()) {
      for (const entry of group.passed) {
        leaveLane(entry);
        entry.parked = 'quota';
        group.jobs.add(entry);
      }
      group.passed.clear();
      for (const gate of group.gates) gate.groups--;
      group.isStale = true;
      group.list = undefined;
      if (group.jobs.size > 0) this.#stale.add(group);
    }
    // Gates of retries outlive the limits.
    for (const gate of this.#lists.keys()) gate.waiting = 0;
    this.#groups.clear();
    this.#lists.clear();
    this.#freed.clear();
    this.#unfit.clear();
    // What came late goes last again.
    if (this.#late && this.#stale.delete(this.#late)) this.#stale.add(this.#late);
  }

  /** The gate that holds up the first job of the group. */
  #obstacle(group: GateGroup, isFree: IsFree): Gate | undefined {
    const first = group.jobs.first() as JobEntry;
    return group.gates.find((gate) => {
      const list = this.#lists.get(gate);
      const passed = list?.passedOf(group.lane) ?? 0;
      if (gate.room <= passed) return true;
      if (!list) return false;
      if (list.unfit === first) return true;
      // Those that wait for a budget go one by one, so that no later one uses what the first waits for.
      if (list.isByBudget && passed > 0) return true;
      return list !== group.list && list.isBehind(first, group.lane, isFree);
    });
  }

  /** Lets the first job of the group through. Until it is claimed, room is kept for it among the jobs of its lane. */
  #pass(group: GateGroup): JobEntry {
    const entry = group.jobs.first() as JobEntry;
    this.#removeWaiting(group, entry);
    this.#keepRoom(group, entry);
    entry.parked = undefined;
    return entry;
  }

  #keepRoom(group: GateGroup, entry: JobEntry): void {
    group.passed.add(entry);
    for (const gate of group.gates) this.#listOf(gate).pass(group.lane, entry);
  }

  #unpass(group: GateGroup, entry: JobEntry): void {
    group.passed.delete(entry);
    for (const gate of group.gates) {
      const list = this.#listOf(gate);
      list.unpass(group.lane, entry);
      if (gate.waiting > 0) this.#freed.add(list);
      else this.#dropList(list);
    }
  }

  #removeWaiting(group: GateGroup, entry: JobEntry): void {
    const { list } = group;
    if (group.jobs.first() !== entry) {
      group.jobs.remove(entry);
      list?.count(-1);
      return;
    }
    group.leaveList();
    group.jobs.remove(entry);
    if (group.jobs.size > 0 && list) this.#enter(group, list);
    if (list && list.gate.waiting > 0) this.#freed.add(list);
    else if (list) this.#dropList(list);
  }

  #enter(group: GateGroup, list: GateList): void {
    group.enterList(list);
    this.#onWait(list.gate);
  }

  #groupOf(lane: string, gates: readonly Gate[]): GateGroup {
    const key = `${lane}\n${gates.map(({ name }) => name).join('\n')}`;
    let group = this.#groups.get(key);
    if (!group) {
      group = new GateGroup(key, lane, gates);
      for (const gate of gates) gate.groups++;
      this.#groups.set(key, group);
    }
    return group;
  }

  #dropEmpty(group: GateGroup): void {
    if (group.isStale || group.jobs.size > 0 || group.passed.size > 0) return;
    for (const gate of group.gates) gate.groups--;
    this.#groups.delete(group.key);
  }

  #listOf(gate: Gate): GateList {
    const list = this.#lists.get(gate) ?? new GateList(gate);
    this.#lists.set(gate, list);
    return list;
  }

  #dropList(list: GateList): void {
    if (!list.isEmpty || this.#freed.has(list)) return;
    this.#lists.delete(list.gate);
    this.#unfit.delete(list);
  }
}

/**
 * What a job waits for at a gate: for jobs that run there, for the budget, which it does not fit into, or for the jobs
 * that wait there for the budget.
 */
export type WaitsFor = 'running' | 'budget' | 'behind';

/** Whether gates have let the job through and keep room for it. */
export const isLetThrough = (entry: JobEntry): boolean =>
  entry.quota instanceof GateGroup && entry.quota.passed.has(entry);

/** The gate at which a job waits. */
export const gateOf = ({ quota }: JobEntry): Gate | undefined =>
  quota instanceof GateGroup ? quota.list?.gate : undefined;

/** The key of the lane that a job waits for at a gate. */
export const waitingLane = ({ quota }: JobEntry): string | undefined =>
  quota instanceof GateGroup && !quota.isStale ? quota.lane : undefined;
