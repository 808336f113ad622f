/** Leases: time-limited rights to a device, and the node that a backend belongs to. */

import { OrchdError } from '../../model/errors.ts';
import type { LeaseRecord } from '../../model/lease-record.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { LeaseDevice } from '../settings.ts';
import { attemptLeaseId, backendLeaseId, type HeldLease, type Leases } from '../state/leases.ts';
import type { Turn } from '../turn.ts';
import { isWithinShare } from './share.ts';

export interface LeaseRequest {
  readonly token: string;
  readonly tenant: string;
  readonly agent: string;
  readonly minMemoryMb: number;
  readonly ttlMs: number;
  /** Only a device of this pool. */
  readonly pool?: string | undefined;
  /** Only the device with this number. */
  readonly gpuIndex?: number | undefined;
}

/** The device that a lease is granted on; `pool` is undefined for a device of the configuration. */
export type LeaseDeviceChoice = Pick<LeaseRecord, 'pool' | 'othersBytes'> & { readonly gpuIndex: number };

const MAX_LEASES = 10_000;
/** A heartbeat is written when this share of the lease's time has passed since the last written one. */
const WRITE_AFTER_SHARE = 1 / 3;

/**
 * The device of the configuration with the most free memory, if it has enough and the tenant's share of the memory of all
 * of them allows it.
 */
export function deviceFor(
  devices: readonly LeaseDevice[],
  leases: Leases,
  { tenant, minMemoryMb, gpuIndex: wished }: Pick<LeaseRequest, 'tenant' | 'minMemoryMb' | 'gpuIndex'>,
): LeaseDeviceChoice | undefined {
  const left = new Map(devices.map(({ index, memoryMb }) => [index, memoryMb]));
  let own = 0;
  let others = 0;
  for (const { record } of leases.all()) {
    const { gpuIndex, pool } = record;
    const free = gpuIndex === undefined || pool !== undefined ? undefined : left.get(gpuIndex);
    if (gpuIndex === undefined || free === undefined) continue;
    left.set(gpuIndex, free - record.minMemoryMb);
    if (record.tenant === tenant) own += record.minMemoryMb;
    else others += record.minMemoryMb;
  }
  const capacity = devices.reduce((sum, { memoryMb }) => sum + memoryMb, 0);
  if (!isWithinShare(tenant, { own, others, capacity, more: minMemoryMb })) return undefined;
  let best: number | undefined;
  for (const [index, free] of left) {
    if (wished !== undefined && index !== wished) continue;
    if (free >= Math.max(minMemoryMb, 1) && (best === undefined || free > (left.get(best) ?? 0)))
      best = index;
  }
  return best === undefined ? undefined : { pool: undefined, gpuIndex: best, othersBytes: undefined };
}

/** Chooses the device of a lease; undefined means the CPU. */
export type ChooseDevice = (turn: Turn, request: LeaseRequest) => LeaseDeviceChoice | undefined;

export function grant(turn: Turn, request: LeaseRequest, choose: ChooseDevice): HeldLease {
  const { leases } = turn.state;
  const known = leases.get(request.token);
  // The same request again: the reply to the first was lost.
  if (known?.record.tenant === request.tenant && known.until > turn.now) return known;
  if (known) throw new OrchdError('LEASE_NOT_HELD');
  if (leases.size >= MAX_LEASES) {
    throw new OrchdError('ADMISSION_REJECT', `there are ${MAX_LEASES} leases already`, {
      reason: 'too_many_leases',
      retriable: true,
    });
  }
  const { token, tenant, agent, minMemoryMb, ttlMs } = request;
  const own = leases.countOf(tenant);
  if (!isWithinShare(tenant, { own, others: leases.size - own, capacity: MAX_LEASES })) {
    throw new OrchdError('ADMISSION_REJECT', `the tenant holds ${own} leases, its share of ${MAX_LEASES}`, {
      reason: 'tenant_share',
      retriable: true,
    });
  }
  const record = newLease(turn, { tenant, agent, minMemoryMb, ttlMs }, choose(turn, request));
  turn.put('lease', token, record, 'granted');
  return leases.get(token) as HeldLease;
}

type LeaseHolder = Pick<LeaseRecord, 'tenant' | 'agent' | 'minMemoryMb' | 'ttlMs'>;

const newLease = (
  { state, now }: Turn,
  holder: LeaseHolder,
  device: LeaseDeviceChoice | undefined,
): LeaseRecord => ({
  v: 2,
  ...holder,
  pool: device?.pool,
  gpuIndex: device?.gpuIndex,
  othersBytes: device?.othersBytes,
  attempt: undefined,
  fence: state.seq + 1,
  grantedAt: now,
  heartbeatAt: now,
  expiresAt: holder.ttlMs === undefined ? undefined : now + holder.ttlMs,
  registry: undefined,
});

/** Grants the device for an attempt, for as long as it is open. Turn.put ends the lease with the attempt. */
export function grantForAttempt(
  turn: Turn,
  token: string,
  holder: Omit<LeaseHolder, 'ttlMs'>,
  device: LeaseDeviceChoice,
): void {
  const record = { ...newLease(turn, { ...holder, ttlMs: undefined }, device), attempt: token };
  turn.put('lease', attemptLeaseId(token), record, 'granted');
}

/** What the holder of a lease shows with a write, so that a write after the lease's end is refused. */
export interface LeaseProof {
  readonly token: string;
  readonly fence: number;
}

export interface LeaseOrder {
  readonly lease: string;
  /** The fence that the caller was granted, if it says so: after its expiry a token may have been granted anew. */
  readonly fence?: number | undefined;
  /** The caller's; undefined for the operator, who reaches the leases of all tenants. */
  readonly tenant: string | undefined;
  /** Leases do not expire at present (the clock has jumped): accept one whose time is over. */
  readonly spared?: boolean;
}

export function heartbeat(turn: Turn, order: LeaseOrder): HeldLease {
  const { leases } = turn.state;
  const { lease: token } = order;
  const { record, ttlMs } = held(turn, order);
  if (turn.now - record.heartbeatAt >= ttlMs * WRITE_AFTER_SHARE) {
    const after = { ...record, heartbeatAt: turn.now, expiresAt: turn.now + ttlMs };
    turn.put('lease', token, after, 'heartbeat');
  } else leases.extend(token, turn.now + ttlMs);
  return leases.get(token) as HeldLease;
}

export function release(turn: Turn, order: LeaseOrder): HeldLease {
  const lease = held(turn, order);
  turn.put('lease', order.lease, null, 'released');
  return lease;
}

export function expireLeases(turn: Turn): void {
  for (const { id } of turn.state.leases.expired(turn.now)) turn.put('lease', id, null, 'expired');
}

/**
 * Refuses a write of a holder whose lease has ended, also while the clock has jumped: a heartbeat renews it first. The lease
 * of an attempt needs no heartbeats.
 */
export function checkLease(turn: Turn, tenant: string, { token, fence }: LeaseProof): void {
  const lease = turn.state.leases.get(token)?.record;
  if (lease?.attempt !== undefined && lease.fence === fence && lease.tenant === tenant) return;
  held(turn, { lease: token, fence, tenant });
}

function held(turn: Turn, order: LeaseOrder): HeldLease & { ttlMs: number } {
  const { lease: token, fence, tenant, spared } = order;
  const lease = turn.state.leases.get(token);
  const ttlMs = lease?.record.ttlMs;
  if (!lease || ttlMs === undefined) throw new OrchdError('LEASE_NOT_HELD');
  if (fence !== undefined && lease.record.fence !== fence) throw new OrchdError('LEASE_NOT_HELD');
  if (tenant !== undefined && lease.record.tenant !== tenant) throw new OrchdError('LEASE_NOT_HELD');
  // The lease has expired, even if no tick has removed it yet.
  if (lease.until <= turn.now && !spared) throw new OrchdError('LEASE_NOT_HELD');
  return { ...lease, ttlMs };
}

/**
 * A backend with a `node` is at one node at a time. It moves to the leading node only when no attempt is open on it:
 * executions at the other node can be neither inspected nor stopped from here, and running more beside them would exceed
 * its slots. Returns whether the backend is at this node.
 */
export function claimBackend(turn: Turn, info: BackendInfo): boolean {
  const { name, node, registry } = info;
  if (node === undefined) return true;
  const id = backendLeaseId(name);
  const lease = turn.state.leases.get(id)?.record;
  if (lease && lease.registry !== registry && turn.fleet.usedSlots(name) > 0) return false;
  if (lease?.registry === registry && lease.agent === node) return true;
  turn.put('lease', id, backendLease(turn, node, registry), lease ? 'moved' : 'granted');
  return true;
}

const backendLease = (turn: Turn, node: string, registry: string): LeaseRecord => ({
  ...newLease(turn, { tenant: '', agent: node, minMemoryMb: 0, ttlMs: undefined }, undefined),
  registry,
});
