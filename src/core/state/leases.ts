/**
 * The leases that are held. Heartbeats stay in memory: a lease is written again only when a third of its time has
 * passed since it was, and after a restart each gets its whole time once more.
 */
import type { LeaseRecord } from '../../model/records.ts';

export interface HeldLease {
  readonly id: string;
  readonly record: LeaseRecord;
  /** When it ends unless a heartbeat comes. */
  readonly until: number;
}

export class Leases {
  readonly #held = new Map<string, HeldLease>();
  /** Undefined where it must be looked for. */
  #next: number | undefined = Number.POSITIVE_INFINITY;

  get size(): number {
    return this.#held.size;
  }

  get(id: string): HeldLease | undefined {
    return this.#held.get(id);
  }

  all(): Iterable<HeldLease> {
    return this.#held.values();
  }

  set(id: string, record: LeaseRecord | null): void {
    this.#next = undefined;
    if (record) this.#held.set(id, { id, record, until: record.expiresAt ?? Number.POSITIVE_INFINITY });
    else this.#held.delete(id);
  }

  /** It is kept until then, whatever was written. */
  keep(id: string, until: number): void {
    const lease = this.#held.get(id);
    if (!lease) return;
    this.#next = undefined;
    this.#held.set(id, { ...lease, until: Math.max(lease.until, until) });
  }

  /** Those who hold one could not be heard while nobody led. */
  renewAll(now: number): void {
    for (const { id, record } of [...this.#held.values()]) {
      if (record.ttlMs !== undefined) this.keep(id, now + record.ttlMs);
    }
  }

  nextExpiry(): number {
    this.#next ??= Math.min(Number.POSITIVE_INFINITY, ...[...this.#held.values()].map(({ until }) => until));
    return this.#next;
  }

  expired(now: number): HeldLease[] {
    return this.nextExpiry() > now ? [] : [...this.#held.values()].filter(({ until }) => until <= now);
  }
}

/** The lease under which the node of a backend is kept. */
export const backendLeaseId = (backend: string): string => `backend:${backend}`;
