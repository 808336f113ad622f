/**
 * The leases in force. Most heartbeats change memory only: a lease is written again when a third of its time has passed
 * since the last write. Because of that, a restart gives every lease its full time again.
 */
import type { LeaseRecord } from '../../model/lease-record.ts';
import { deviceName, Index } from './tables.ts';

export interface HeldLease {
  readonly id: string;
  readonly record: LeaseRecord;
  /** When the lease expires unless a heartbeat comes. */
  readonly until: number;
}

export class Leases {
  readonly #held = new Map<string, HeldLease>();
  readonly #byTenant = new Map<string, number>();
  readonly #byDevice = new Index();
  /** The earliest expiry, cached; undefined means that it must be computed. */
  #next: number | undefined = Number.POSITIVE_INFINITY;

  get size(): number {
    return this.#held.size;
  }

  get(id: string): HeldLease | undefined {
    return this.#held.get(id);
  }

  countOf(tenant: string): number {
    return this.#byTenant.get(tenant) ?? 0;
  }

  all(): Iterable<HeldLease> {
    return this.#held.values();
  }

  /** The leases on a device of a pool. */
  on(pool: string, device: number): LeaseRecord[] {
    const ids = this.#byDevice.get(deviceName(pool, device));
    return Array.from(ids, (id) => (this.#held.get(id) as HeldLease).record);
  }

  set(id: string, record: LeaseRecord | null): void {
    this.#next = undefined;
    const former = this.#held.get(id)?.record;
    if (former) this.#count(former.tenant, -1);
    if (record) this.#count(record.tenant, 1);
    const [from, to] = [placeOf(former), placeOf(record)];
    if (from !== undefined) this.#byDevice.remove(from, id);
    if (to !== undefined) this.#byDevice.add(to, id);
    if (record) this.#held.set(id, { id, record, until: record.expiresAt ?? Number.POSITIVE_INFINITY });
    else this.#held.delete(id);
  }

  #count(tenant: string, by: 1 | -1): void {
    const count = this.countOf(tenant) + by;
    if (count === 0) this.#byTenant.delete(tenant);
    else this.#byTenant.set(tenant, count);
  }

  /** Extends a lease in memory, without a write. */
  extend(id: string, until: number): void {
    const lease = this.#held.get(id);
    if (!lease) return;
    this.#next = undefined;
    this.#held.set(id, { ...lease, until: Math.max(lease.until, until) });
  }

  /** Gives every lease its full time: heartbeats could not arrive while no brain was running. */
  renewAll(now: number): void {
    for (const { id, record } of [...this.#held.values()]) {
      if (record.ttlMs !== undefined) this.extend(id, now + record.ttlMs);
    }
  }

  /** Brain time was stepped: the rest of every lease stays as it was. */
  moveInstants(byMs: number): void {
    this.#next = undefined;
    for (const lease of [...this.#held.values()])
      this.#held.set(lease.id, { ...lease, until: lease.until + byMs });
  }

  nextExpiry(): number {
    this.#next ??= Math.min(Number.POSITIVE_INFINITY, ...[...this.#held.values()].map(({ until }) => until));
    return this.#next;
  }

  expired(now: number): HeldLease[] {
    return this.nextExpiry() > now ? [] : [...this.#held.values()].filter(({ until }) => until <= now);
  }
}

const placeOf = (record: LeaseRecord | null | undefined): string | undefined =>
  record?.pool === undefined || record.gpuIndex === undefined
    ? undefined
    : deviceName(record.pool, record.gpuIndex);

/** Whether the lease is about a device, or about the CPU for want of one. */
export const isDeviceLease = ({ ttlMs, attempt }: LeaseRecord): boolean =>
  ttlMs !== undefined || attempt !== undefined;

/** The id of the lease that an attempt has on its device. */
export const attemptLeaseId = (token: string): string => `attempt:${token}`;

/** The id of the lease that records at which node a backend runs; it never expires, and no other node may call the backend. */
export const backendLeaseId = (backend: string): string => `backend:${backend}`;
