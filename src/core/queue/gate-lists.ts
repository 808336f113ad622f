/**
 * The jobs that wait at narrow gates, parked as `quota`. They have left their lanes, so that a pick does not meet them,
 * however many they are.
 *
 * W1  Jobs leave a gate in order: interactive before batch, then by score, then as they were admitted; of jobs for
 *     different lanes those go first whose lane has a free backend.
 * W2  A job that comes while others wait at a gate waits behind them, as its order says.
 */
import { SortedList } from '../../kit/sorted-list.ts';
import type { Gate } from '../limits/gate.ts';
import type { JobEntry } from '../state/job-entry.ts';

function ahead({ ask: a }: JobEntry, { ask: b }: JobEntry): boolean {
  if (a.spec.priority !== b.spec.priority) return a.spec.priority === 'interactive';
  if (a.spec.score !== b.spec.score) return a.spec.score > b.spec.score;
  return a.n < b.n;
}

/** The jobs that wait at one gate, by the key of their lane. */
export class GateList {
  /** Undefined once its limit was removed: the jobs are let go. */
  gate: Gate | undefined;
  /** A job did not fit into the budget: the others follow one by one, so that no later one uses what it waits for. */
  isByBudget = false;
  readonly #lanes = new Map<string, SortedList<JobEntry>>();
  #size = 0;

  constructor(gate: Gate) {
    this.gate = gate;
  }

  get size(): number {
    return this.#size;
  }

  add(entry: JobEntry, lane: string): void {
    const list = this.#lanes.get(lane) ?? new SortedList<JobEntry>(ahead);
    this.#lanes.set(lane, list);
    list.add(entry);
    this.#resize(1);
  }

  remove(entry: JobEntry, lane: string): void {
    const list = this.#lanes.get(lane);
    if (!list) return;
    list.remove(entry);
    if (list.size === 0) this.#lanes.delete(lane);
    this.#resize(-1);
  }

  /** The job that goes next; `isFree` says whether a lane has a free backend. */
  next(isFree: (lane: string) => boolean): { readonly entry: JobEntry; readonly lane: string } | undefined {
    let best: { readonly entry: JobEntry; readonly lane: string; readonly free: boolean } | undefined;
    for (const [lane, list] of this.#lanes) {
      const entry = list.first() as JobEntry;
      const free = isFree(lane);
      if (!best || (free === best.free ? ahead(entry, best.entry) : free)) best = { entry, lane, free };
    }
    return best;
  }

  /** Whether another job may leave. */
  get mayLeave(): boolean {
    if (!this.gate) return true;
    return this.gate.room > 0 && !(this.isByBudget && this.gate.woken > 0);
  }

  #resize(by: 1 | -1): void {
    this.#size += by;
    if (this.#size === 0) this.isByBudget = false;
    if (this.gate) this.gate.waiting = this.#size;
  }
}

/** The lists of all gates. */
export class GateLists {
  readonly #lists = new Map<Gate, GateList>();
  /** Lists from which a job may leave. */
  readonly #freed = new Set<GateList>();

  /** The number of jobs that wait at gates. */
  get size(): number {
    let size = 0;
    for (const list of this.#lists.values()) size += list.size;
    // Those of limits that were removed are about to leave.
    for (const list of this.#freed) if (!list.gate) size += list.size;
    return size;
  }

  get hasFreed(): boolean {
    return this.#freed.size > 0;
  }

  park(entry: JobEntry, lane: string, gate: Gate, isByBudget: boolean): void {
    const list = this.#lists.get(gate) ?? new GateList(gate);
    this.#lists.set(gate, list);
    list.add(entry, lane);
    if (isByBudget) list.isByBudget = true;
    entry.quota = list;
    entry.parked = 'quota';
  }

  /** The gate may let more through than before. */
  free(gate: Gate): void {
    const list = this.#lists.get(gate);
    if (list && list.size > 0) this.#freed.add(list);
  }

  /** The job leaves its gate for good, whether it waits there or was let through and was not claimed yet. */
  leave(entry: JobEntry, lane: string): void {
    const list = entry.quota;
    if (!(list instanceof GateList)) return;
    entry.quota = undefined;
    // A job that was let through is in its lane, or was just taken out of it to be claimed.
    if (entry.lane === undefined) list.remove(entry, lane);
    else if (list.gate) list.gate.woken--;
    if (list.size > 0) this.#freed.add(list);
    else if (list.gate) this.#lists.delete(list.gate);
  }

  /** The next jobs that gates let through, at most `atMost`; each must be put into its lane. */
  *letThrough(isFree: (lane: string) => boolean, atMost: number): Generator<JobEntry> {
    let count = 0;
    for (const list of this.#freed) {
      while (list.size > 0 && list.mayLeave) {
        if (count++ === atMost) return;
        const next = list.next(isFree);
        if (!next) break;
        list.remove(next.entry, next.lane);
        next.entry.parked = undefined;
        if (list.gate) list.gate.woken++;
        else next.entry.quota = undefined;
        yield next.entry;
      }
      this.#freed.delete(list);
    }
  }

  /** All limits were replaced: the lists stay, at the new gates of their scopes. */
  moveTo(gateOf: (name: string) => Gate | undefined): void {
    const lists = [...this.#lists.values()];
    this.#lists.clear();
    for (const list of lists) {
      const gate = list.gate && gateOf(list.gate.name);
      list.gate = gate;
      if (gate) {
        gate.waiting = list.size;
        this.#lists.set(gate, list);
      }
      if (list.size > 0) this.#freed.add(list);
    }
  }
}
