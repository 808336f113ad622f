/**
 * The retry gates of callers and of routes. A caller is an API token of a tenant and not an agent, whose name callers
 * choose. The counts begin anew with every brain.
 */
import type { Gate } from '../limits/gate.ts';
import { RetryGate } from '../limits/retry-gate.ts';
import type { JobEntry } from '../state/job-entry.ts';

/** More callers and routes than these share one gate. */
const MAX_GATES = 10_000;
const SHARED = 'retries:*';

export class Retries {
  readonly #share: number;
  readonly #gates = new Map<string, RetryGate>();
  /** Gates at which retries wait. */
  readonly #held = new Set<RetryGate>();

  constructor(share: number) {
    this.#share = share;
  }

  /** The gates that a retry of the job passes. */
  of({ ask: { tenant, submittedBy, route } }: JobEntry, now: number): RetryGate[] {
    const ofCaller = this.#gate(`retries:token:${tenant}/${submittedBy}`, now);
    return route === undefined ? [ofCaller] : [this.#gate(`retries:route:${route}`, now), ofCaller];
  }

  /** Retries wait at the gate: it is watched until it lets them go. */
  hold(gate: Gate): void {
    if (gate instanceof RetryGate) this.#held.add(gate);
  }

  /** The gates that let a retry go because none has gone for a while. */
  due(now: number): RetryGate[] {
    const due: RetryGate[] = [];
    for (const gate of this.#held) {
      if (gate.waiting === 0) this.#held.delete(gate);
      else if (gate.roll(now)) due.push(gate);
    }
    return due;
  }

  nextDue(): number {
    let next = Number.POSITIVE_INFINITY;
    // A gate with room is not waited for: its retries go, or wait in their lanes.
    for (const gate of this.#held)
      if (gate.waiting > 0 && gate.room <= 0) next = Math.min(next, gate.rollsAt);
    return next;
  }

  moveInstants(byMs: number): void {
    for (const gate of this.#gates.values()) gate.moveInstants(byMs);
  }

  #gate(name: string, now: number): RetryGate {
    const known = this.#gates.get(name);
    if (known) return known;
    if (this.#gates.size >= MAX_GATES && name !== SHARED) return this.#gate(SHARED, now);
    const gate = new RetryGate(name, this.#share, now);
    this.#gates.set(name, gate);
    return gate;
  }
}
