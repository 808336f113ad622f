/** Leases: who gets which device, and for how long. */

import { OrchdError } from '../../model/errors.ts';
import type { LeaseRecord } from '../../model/records.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { LeaseDevice } from '../settings.ts';
import type { HeldLease, Leases } from '../state/leases.ts';
import { backendLeaseId } from '../state/leases.ts';
import type { Turn } from '../turn.ts';

export interface LeaseRequest {
  readonly token: string;
  readonly tenant: string;
  readonly agent: string;
  readonly minMemoryMb: number;
  readonly ttlMs: number;
}

const MAX_LEASES = 10_000;
/** Of the time of a lease, after which a heartbeat is written. */
const WRITTEN_EVERY = 1 / 3;

/** The device with the most memory left, if it has enough; else the CPU. */
export function deviceFor(
  devices: readonly LeaseDevice[],
  leases: Leases,
  minMemoryMb: number,
): number | undefined {
  const left = new Map(devices.map(({ index, memoryMb }) => [index, memoryMb]));
  for (const { record } of leases.all()) {
    const { gpuIndex } = record;
    const free = gpuIndex === undefined ? undefined : left.get(gpuIndex);
    if (gpuIndex !== undefined && free !== undefined) left.set(gpuIndex, free - record.minMemoryMb);
  }
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
  // Asked for twice: the answer to the first was lost.
  if (known?.record.tenant === request.tenant && known.until > turn.now) return known;
  if (known) throw new OrchdError('LEASE_NOT_HELD');
  if (leases.size >= MAX_LEASES) {
    throw new OrchdError('ADMISSION_REJECT', `there are ${MAX_LEASES} leases already`, {
      reason: 'too_many_leases',
      retriable: true,
    });
  }
  const { token, tenant, agent, minMemoryMb, ttlMs } = request;
  turn.put(
    'lease',
    token,
    {
      v: 1,
      tenant,
      agent,
      gpuIndex: deviceFor(turn.settings.devices, leases, minMemoryMb),
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

export interface LeaseOrder {
  readonly lease: string;
  readonly tenant: string;
  /** Time may end nothing now: one whose time is over is still held. */
  readonly spared?: boolean;
}

export function heartbeat(turn: Turn, order: LeaseOrder): HeldLease {
  const { leases } = turn.state;
  const { lease: token } = order;
  const { record, ttlMs } = held(turn, order);
  if (turn.now - record.heartbeatAt >= ttlMs * WRITTEN_EVERY) {
    const after = { ...record, heartbeatAt: turn.now, expiresAt: turn.now + ttlMs };
    turn.put('lease', token, after, 'heartbeat');
  } else leases.keep(token, turn.now + ttlMs);
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

function held(turn: Turn, { lease: token, tenant, spared }: LeaseOrder): HeldLease & { ttlMs: number } {
  const lease = turn.state.leases.get(token);
  const ttlMs = lease?.record.ttlMs;
  if (!lease || ttlMs === undefined || lease.record.tenant !== tenant) throw new OrchdError('LEASE_NOT_HELD');
  // What time has ended is over, also where nobody has looked yet.
  if (lease.until <= turn.now && !spared) throw new OrchdError('LEASE_NOT_HELD');
  return { ...lease, ttlMs };
}

/**
 * A backend of which there is one for all nodes is at one node at a time. It moves to the node that leads only when
 * nothing of it is open: what runs at the other node can neither be asked nor stopped from here, and a second one
 * beside it would be one too many. Returns whether it is here.
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
