/** Chooses the device of a lease: one of the configuration, or one of a pool, whose memory is accounted with its workers'. */
import { type ConsumerRecord, consumerId } from '../../model/consumer-record.ts';
import { OrchdError } from '../../model/errors.ts';
import type { LeaseRecord } from '../../model/lease-record.ts';
import { deviceFor, grantForAttempt, type LeaseDeviceChoice, type LeaseRequest } from '../admission/lease.ts';
import { isWithinShare } from '../admission/share.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineView, Turn } from '../turn.ts';
import { leasedBytes, othersBytes } from './device-account.ts';
import { type DeviceRoom, roomiest, Survey } from './room.ts';

const MIB = 2 ** 20;

type Wish = Pick<LeaseRequest, 'tenant' | 'minMemoryMb' | 'pool' | 'gpuIndex'>;

/**
 * The device with the most free memory, if it has enough and the tenant's share of the memory of all devices allows it;
 * undefined means the CPU. Devices of the configuration are for machines without a pool manager: where there are some, a
 * request that names no pool means them.
 */
export function leaseDevice(turn: Turn, wish: Wish): LeaseDeviceChoice | undefined {
  if (isOfPools(turn, wish)) checkNamed(turn, wish);
  return findDevice(turn, wish);
}

const isOfPools = ({ settings }: Turn, { pool }: Wish): boolean =>
  pool !== undefined || settings.devices.length === 0;

function findDevice(turn: Turn, wish: Wish): LeaseDeviceChoice | undefined {
  const { devices, pools } = turn.settings;
  const { minMemoryMb, tenant } = wish;
  if (!isOfPools(turn, wish)) return deviceFor(devices, turn.state.leases, wish);
  const all = gpusOf(turn).filter(({ device }) => device.ok);
  const sums = { own: 0, others: 0 };
  for (const { record } of turn.state.leases.all())
    if (record.pool !== undefined) sums[record.tenant === tenant ? 'own' : 'others'] += record.minMemoryMb;
  const capacity = all.reduce((sum, { device }) => sum + device.totalBytes, 0) / MIB;
  if (!isWithinShare(tenant, { ...sums, capacity, more: minMemoryMb })) return undefined;
  const wished = all.filter((room) => isMeant(room, wish));
  const room = roomiest(wished, Math.max(minMemoryMb * MIB, 1), pools.region);
  return (
    room && {
      pool: room.pool.report.id,
      gpuIndex: room.device.id,
      othersBytes: othersBytes([...room.leases, ...endedOn(room)], room.device),
    }
  );
}

const endedOn = ({ pool, device }: DeviceRoom): LeaseRecord[] =>
  pool.endedLeases.filter(({ gpuIndex }) => gpuIndex === device.id);

const isMeant = ({ pool, device }: DeviceRoom, { pool: name, gpuIndex }: Wish): boolean =>
  (name === undefined || pool.report.id === name) && (gpuIndex === undefined || device.id === gpuIndex);

const gpusOf = (view: EngineView): readonly DeviceRoom[] =>
  new Survey(view).all().filter(({ device }) => !device.isCpu);

/** Throws for a pool or a device that is not there, and where the named devices are too small for good. */
function checkNamed({ state }: Turn, { pool: name, gpuIndex, minMemoryMb }: Wish): void {
  const { known, awaited } = state.pools;
  const pool = name === undefined ? undefined : known.get(name);
  const isAwaited = (name === undefined ? known.size === 0 : !pool) && awaited.size > 0;
  if (isAwaited) throw new OrchdError('POOL_UNAVAILABLE', 'a pool manager has not reported its devices yet');
  if (name === undefined) return;
  if (!pool) throw new OrchdError('NOT_FOUND', `there is no pool "${name}"`);
  const devices = [...pool.devices.values()].filter(({ id }) => gpuIndex === undefined || id === gpuIndex);
  if (gpuIndex !== undefined && devices.length === 0)
    throw new OrchdError('NOT_FOUND', `the pool "${name}" has no device ${gpuIndex}`);
  if (devices.every(({ totalBytes }) => totalBytes < minMemoryMb * MIB)) {
    const message = `no device of the pool "${name}" has ${minMemoryMb} MiB`;
    throw new OrchdError('INSUFFICIENT_VRAM', message, { retriable: false, field: 'min_memory_mb' });
  }
}

/** Lends a device to a consumer for an attempt that it claims. */
export function lendDevice(turn: Turn, consumer: ConsumerRecord, { ask, token }: JobEntry): boolean {
  const { gpuMemoryMb: minMemoryMb = 0, gpuPool: pool } = consumer;
  const { tenant } = ask;
  const device = findDevice(turn, { tenant, minMemoryMb, pool });
  if (!device) return false;
  const agent = consumerId(consumer.pool, consumer.name);
  grantForAttempt(turn, token, { tenant, agent, minMemoryMb }, device);
  return true;
}

/** The leases on a pool's device, in bytes. */
export const leasedOn = ({ state }: EngineView, pool: string, device: number): number =>
  leasedBytes(state.leases.on(pool, device));
