/** Leases: time-limited rights to a device, and the node that a backend belongs to. */

import { OrchdError } from '../../model/errors.ts';
import type { LeaseRecord } from '../../model/records.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { LeaseDevice } from '../settings.ts';
import type { HeldLease, Leases } from '../state/leases.ts';
import { backendLeaseId } from '../state/leases.ts';
import type { Turn } from '../turn.ts';
import { isWithinShare } from './share.ts';

export interface LeaseRequest {
  readonly token: string;
  readonly tenant: string;
  readonly agent: string;
  readonly minMemoryMb: number;
  readonly ttlMs: number;
}

const MAX_LEASES = 10_000;
/** A heartbeat is written when this share of the lease's time has passed since the last written one. */
const WRITE_AFTER_SHARE = 1 / 3;

/**
 * The device with the most free memory, if it has enough and the tenant's share of the memory of all devices allows it;
 * undefined means the CPU.
 */
export function deviceFor(
  devices: readonly LeaseDevice[],
  leases: Leases,
  { tenant, minMemoryMb }: Pick<LeaseRequest, 'tenant' | 'minMemoryMb'>,
): number | undefined {
  const left = new Map(devices.map(({ index, memoryMb }) => [index, memoryMb]));
  let own = 0;
  let others = 0;
  for (const { record } of leases.all()) {
    const { gpuIndex } = record;
    const free = gpuIndex === undefined ? undefined : left.get(gpuIndex);
    if (gpuIndex === undefined || free === undefined) continue;
    left.set(gpuIndex, free - record.minMemoryMb);
    if (record.tenant === tenant) own += record.minMemoryMb;
    else others += record.minMemoryMb;
  }
  const capacity = devices.reduce((sum, { memoryMb }) => sum + memoryMb, 0);
  if (!isWithinShare(tenant, { own, others, capacity, more: minMemoryMb })) return undefined;
  let best: number | undefined;
  for (const [index, free] of left) {
    if (free >= Math.max(minMemoryMb, 1) && (best === undefined || free > (left.get(best) ?? 0)))
      best = index;
  }
  return best;
}

export function grant(turn: Turn, request: LeaseRequest): HeldLease {
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
  turn.put(
    'lease',
    token,
    {
      v: 1,
      tenant,
      agent,
      gpuIndex: deviceFor(turn.settings.devices, leases, request),
      minMemoryMb,
      fence: turn.state.seq + 1,
      grantedAt: turn.now,
      ttlMs,
      heartbeatAt: turn.now,
      expiresAt: turn.now + ttlMs,
      registry: undefined,
    },
    'granted',
  );
  return leases.get(token) as HeldLease;
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

/** Refuses a write of a holder whose lease has ended, also while the clock has jumped: a heartbeat renews it first. */
export function checkLease(turn: Turn, tenant: string, { token, fence }: LeaseProof): void {
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
  v: 1,
  tenant: '',
  agent: node,
  gpuIndex: undefined,
  minMemoryMb: 0,
  fence: turn.state.seq + 1,
  grantedAt: turn.now,
  ttlMs: undefined,
  heartbeatAt: turn.now,
  expiresAt: undefined,
  registry,
});
