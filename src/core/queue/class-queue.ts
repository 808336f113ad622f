/**
 * The waiting jobs of one class in one lane, shared fairly between flows. A flow is the jobs of one agent, not of one
 * session (docs/decisions/0002). Each pick charges its flow with the weight of the job; the flow with the lowest charge is
 * next. A flow that was empty gets no credit for that time.
 *
 * Fairness holds within one lane only: scheduling/schedule.ts serves the lanes first come, first served. Between flows with
 * the same charge the order is not defined. Within a flow the job with the higher score is first, then the one that was
 * admitted first (flow.ts).
 */

import { IndexedHeap } from '../../kit/indexed-heap.ts';
import { uidOf } from '../../model/records.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { DecayedRate } from './decayed-rate.ts';
import { Flow } from './flow.ts';

const FLOW_POSITION = {
  get: (flow: Flow) => flow.pos,
  set: (flow: Flow, position: number) => {
    flow.pos = position;
  },
};

/** The owner of a flow: an agent of a tenant. */
const ownerOf = ({ ask }: JobEntry): string => uidOf(ask.tenant, ask.spec.agent);

/** A position is worked out from this many other flows; where there are more, they stand for the rest. */
const VISITED_FLOWS = 32;
/** The time constant of the arrival rate. */
const ARRIVALS_TAU_MS = 120_000;

export class ClassQueue {
  /** The rate at which jobs become ready. */
  readonly rate = new DecayedRate(ARRIVALS_TAU_MS);
  readonly #flows = new Map<string, Flow>();
  readonly #active = new IndexedHeap<Flow>((a, b) => a.vtime < b.vtime, FLOW_POSITION);
  /** Jobs in the order in which they became ready. A job that has left stays until `#compact`, and is skipped. */
  #arrivals: JobEntry[] = [];
  /** The `readyOrder` of each arrival when it was added: a job that left and came back has another one. */
  #arrivalOrders: number[] = [];
  /** The index in `#arrivals` at which the search for the oldest job begins. */
  #oldestAt = 0;
  /** The virtual time of the last pick: a flow that becomes active starts here. */
  #vnow = 0;
  #size = 0;
  #arrived = 0;

  get size(): number {
    return this.#size;
  }

  add(entry: JobEntry): void {
    const owner = ownerOf(entry);
    let flow = this.#flows.get(owner);
    if (!flow) {
      flow = new Flow(owner);
      this.#flows.set(owner, flow);
    }
    flow.add(entry);
    this.#size++;
    this.rate.add(entry.readyAt);
    if (flow.size === 1) {
      flow.vtime = Math.max(flow.vtime, this.#vnow);
      this.#active.push(flow);
    }
    entry.readyOrder = ++this.#arrived;
    this.#arrivals.push(entry);
    this.#arrivalOrders.push(entry.readyOrder);
  }

  remove(entry: JobEntry): void {
    const flow = this.#flows.get(ownerOf(entry));
    if (!flow || !entry.isWaiting) return;
    flow.remove(entry);
    this.#size--;
    if (flow.size === 0) this.#retire(flow);
    if (this.#arrivals.length > 64 && this.#arrivals.length > 2 * this.#size) this.#compact();
  }

  /** The next job of this class. */
  head(): JobEntry | undefined {
    return this.#active.peek()?.head();
  }

  /** Takes the next job and charges its flow. */
  take(): JobEntry | undefined {
    const flow = this.#active.peek();
    const entry = flow?.head();
    if (!flow || !entry) return undefined;
    this.#vnow = flow.vtime;
    flow.vtime += entry.ask.spec.weight;
    this.remove(entry);
    if (flow.size > 0) this.#active.update(flow);
    return entry;
  }

  /** Charges the flow of a job that starts without having been picked here. */
  charge(entry: JobEntry): void {
    const owner = ownerOf(entry);
    const flow = this.#flows.get(owner);
    // While no flow is active all charges are reset.
    if (this.#active.size === 0) return;
    if (flow) flow.vtime += entry.ask.spec.weight;
    else
      this.#flows.set(owner, Object.assign(new Flow(owner), { vtime: this.#vnow + entry.ask.spec.weight }));
    if (flow && flow.size > 0) this.#active.update(flow);
  }

  /** The job that has been ready for the longest time. */
  oldest(): JobEntry | undefined {
    while (this.#oldestAt < this.#arrivals.length) {
      const entry = this.#arrivals[this.#oldestAt] as JobEntry;
      if (this.#stillHere(this.#oldestAt)) return entry;
      this.#oldestAt++;
    }
    return undefined;
  }

  /**
   * How many jobs of this class go before `entry` if no other comes. Flows with the same charge may go in any order, so it
   * may differ by the number of flows; it is an estimate where the jobs of a flow have different weights, and where there
   * are many flows.
   */
  positionOf(entry: JobEntry): number {
    const own = this.#flows.get(ownerOf(entry));
    if (!own) return this.#size;
    const rank = own.rankOf(entry);
    // The job is next when its flow has been charged with the jobs before it.
    const turn = own.vtime + rank * own.meanWeight;
    const before = rank + this.#picksBefore(turn, own);
    return Math.max(0, Math.min(this.#size - 1, Math.round(before)));
  }

  /** How many jobs the other flows have started when they are charged with this virtual time. */
  #picksBefore(turn: number, own: Flow): number {
    const flows = this.#active.items();
    const step = Math.max(1, flows.length / VISITED_FLOWS);
    let picks = 0;
    let visited = 0;
    for (let at = 0; at < flows.length; at += step) {
      const flow = flows[Math.floor(at)] as Flow;
      if (flow === own) continue;
      visited++;
      picks += Math.min(flow.size, Math.max(0, Math.ceil((turn - flow.vtime) / flow.meanWeight)));
    }
    return visited === 0 ? 0 : (picks * (flows.length - 1)) / visited;
  }

  /** An estimate of how many waiting jobs were admitted before sequence number `n`. */
  cameBefore(n: number): number {
    let from = this.#oldestAt;
    let to = this.#arrivals.length;
    const all = to - from;
    if (all === 0) return 0;
    // Arrivals are nearly in order of admission: only jobs that were parked became ready later.
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#arrivals[middle] as JobEntry).ask.n < n) from = middle + 1;
      else to = middle;
    }
    return Math.round((this.#size * (from - this.#oldestAt)) / all);
  }

  #stillHere(at: number): boolean {
    const entry = this.#arrivals[at] as JobEntry;
    return entry.isWaiting && entry.readyOrder === this.#arrivalOrders[at];
  }

  #retire(flow: Flow): void {
    this.#active.remove(flow);
    // An empty flow whose charge is not above the others is dropped. One with a higher charge is kept, so that it cannot
    // lose its charge by leaving and coming back. All charges are reset when no flow is active.
    if (flow.vtime <= this.#vnow) this.#flows.delete(flow.owner);
    if (this.#active.size === 0) {
      this.#flows.clear();
      this.#vnow = 0;
    } else if (this.#flows.size > 64 && this.#flows.size > 2 * this.#active.size) this.#dropEmptyFlows();
  }

  #dropEmptyFlows(): void {
    for (const flow of this.#flows.values()) {
      if (flow.size === 0 && flow.vtime <= this.#vnow) this.#flows.delete(flow.owner);
    }
  }

  #compact(): void {
    const arrivals: JobEntry[] = [];
    const orders: number[] = [];
    for (let at = this.#oldestAt; at < this.#arrivals.length; at++) {
      if (!this.#stillHere(at)) continue;
      arrivals.push(this.#arrivals[at] as JobEntry);
      orders.push(this.#arrivalOrders[at] as number);
    }
    this.#arrivals = arrivals;
    this.#arrivalOrders = orders;
    this.#oldestAt = 0;
  }
}
