/**
 * One class of one lane: flows served fairly. Each pick charges its flow with the weight of the job; the flow
 * that was charged least is next, and a flow that was away does not save up.
 */

import { IndexedHeap } from '../../kit/indexed-heap.ts';
import { uidOf } from '../../model/records.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { DecayedRate } from './decayed-rate.ts';
import { Flow } from './flow.ts';

const FLOW_PLACE = {
  get: (flow: Flow) => flow.pos,
  set: (flow: Flow, position: number) => {
    flow.pos = position;
  },
};

/** Whose turn it is: an agent of a tenant. */
const ownerOf = ({ ask }: JobEntry): string => uidOf(ask.tenant, ask.spec.agent);

/** Beyond this many flows a position is estimated without visiting each. */
const EXACT_FLOWS = 32;
/** What came in the last few minutes says how fast more will come. */
const ARRIVALS_TAU_MS = 120_000;

export class ClassQueue {
  /** How fast jobs become ready. */
  readonly rate = new DecayedRate(ARRIVALS_TAU_MS);
  readonly #flows = new Map<string, Flow>();
  readonly #active = new IndexedHeap<Flow>((a, b) => a.vtime < b.vtime, FLOW_PLACE);
  /** Entries in order of becoming ready; those that left are skipped when they reach the front. */
  #arrivals: JobEntry[] = [];
  #arrivalOrders: number[] = [];
  #oldestAt = 0;
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
    if (!flow || entry.queuePos < 0) return;
    flow.remove(entry);
    this.#size--;
    if (flow.size === 0) this.#retire(flow);
    if (this.#arrivals.length > 64 && this.#arrivals.length > 2 * this.#size) this.#compact();
  }

  /** The job that is next in this class. */
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

  /** The job that has been ready for the longest time. */
  oldest(): JobEntry | undefined {
    while (this.#oldestAt < this.#arrivals.length) {
      const entry = this.#arrivals[this.#oldestAt] as JobEntry;
      if (this.#stillHere(this.#oldestAt)) return entry;
      this.#oldestAt++;
    }
    return undefined;
  }

  /** About how many jobs of this class go before `entry`. */
  positionOf(entry: JobEntry): number {
    const own = this.#flows.get(ownerOf(entry));
    if (!own) return this.#size;
    const rank = own.rankOf(entry, this.#size);
    if (this.#active.size > EXACT_FLOWS) return Math.min(this.#size - 1, rank * this.#active.size);
    let position = rank;
    for (const flow of this.#active.items()) {
      if (flow === own) continue;
      // Flows are served in turn: each other flow gets as many picks as ours, one more where it goes first.
      position += Math.min(flow.size, rank + (flow.vtime < own.vtime ? 1 : 0));
    }
    return Math.max(0, Math.min(this.#size - 1, position));
  }

  /** About how many waiting jobs were submitted before the one with number `n`. */
  cameBefore(n: number): number {
    let from = this.#oldestAt;
    let to = this.#arrivals.length;
    const all = to - from;
    if (all === 0) return 0;
    // Nearly in order of submission: only jobs that were parked came out of turn.
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#arrivals[middle] as JobEntry).ask.n < n) from = middle + 1;
      else to = middle;
    }
    return Math.round((this.#size * (from - this.#oldestAt)) / all);
  }

  #stillHere(at: number): boolean {
    const entry = this.#arrivals[at] as JobEntry;
    return entry.queuePos >= 0 && entry.readyOrder === this.#arrivalOrders[at];
  }

  #retire(flow: Flow): void {
    this.#active.remove(flow);
    // A flow whose debt is paid carries no memory; one that is ahead keeps it, so that it cannot jump the turn
    // by leaving and coming back. Debts vanish with the last active flow.
    if (flow.vtime <= this.#vnow) this.#flows.delete(flow.owner);
    if (this.#active.size === 0) {
      this.#flows.clear();
      this.#vnow = 0;
    } else if (this.#flows.size > 64 && this.#flows.size > 2 * this.#active.size) this.#forgiveDebts();
  }

  #forgiveDebts(): void {
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
