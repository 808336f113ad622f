/**
 * The account of the memory of a pool's device: workers, leases, and what other programs use.
 *
 * A1  Programs that hold leases are not known to the pool manager: the memory that they use is part of what it measures as
 *     used by others. So only the part of the leases that is not used yet is subtracted from what it reports as available.
 * A2  Others used memory before the first lease was granted, and may use more since. Every lease records what they used
 *     then (`othersBytes`), so that this is not taken for memory that the holders have begun to use.
 */
import type { LeaseRecord } from '../../model/lease-record.ts';
import type { PoolDevice } from '../ports/pools.ts';

const MIB = 2 ** 20;

export const leasedBytes = (leases: readonly LeaseRecord[]): number =>
  leases.reduce((sum, { minMemoryMb }) => sum + minMemoryMb * MIB, 0);

/** What programs other than workers use on the device, holders of leases among them. */
const foreignBytes = ({ totalBytes, allocatedBytes, availableBytes }: PoolDevice): number =>
  Math.max(0, totalBytes - allocatedBytes - availableBytes);

/** A2: what others used at the last grant. */
function othersAtGrant(leases: readonly LeaseRecord[]): number {
  let last: LeaseRecord | undefined;
  for (const lease of leases) if (!last || lease.fence > last.fence) last = lease;
  return last?.othersBytes ?? 0;
}

/** The memory of the leases on a device that their holders do not use yet. */
export function unusedBytes(leases: readonly LeaseRecord[], device: PoolDevice): number {
  if (leases.length === 0) return 0;
  const used = Math.max(0, foreignBytes(device) - othersAtGrant(leases));
  return Math.max(0, leasedBytes(leases) - used);
}

/**
 * What others use on the device now, as a new lease records it. `leases`: those on the device, and those that have ended
 * since it was measured.
 */
export function othersBytes(leases: readonly LeaseRecord[], device: PoolDevice): number {
  const foreign = foreignBytes(device);
  if (leases.length === 0) return foreign;
  // Between the two lies what the holders may use: they are taken to be those who use it.
  const most = othersAtGrant(leases);
  const least = foreign - leasedBytes(leases);
  return Math.min(foreign, Math.max(most, least));
}
