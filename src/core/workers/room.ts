/** Finds the devices on which a worker with a model could be started, and the memory that is free on them. */

import type { LeaseRecord } from '../../model/lease-record.ts';
import { isCpu } from '../../model/policy.ts';
import { MAX_POOL_WORKERS } from '../../model/pool-wire.ts';
import type { ModelRecord, WorkerRecord } from '../../model/records.ts';
import type { PoolDevice } from '../ports/pools.ts';
import { workerBackend } from '../ports/pools.ts';
import type { BackendEntry, Fleet } from '../queue/fleet.ts';
import type { Need } from '../queue/lane.ts';
import type { PoolEntry } from '../state/pools.ts';
import type { EngineView } from '../turn.ts';
import { unusedBytes } from './device-account.ts';

/** A worker on a device, with its backend in the fleet. */
export interface DeviceWorker {
  readonly id: string;
  readonly record: WorkerRecord;
  readonly backend: BackendEntry | undefined;
  /** The slots in use, also if the worker is no longer in the fleet. */
  readonly used: number;
}

/** What a pool and a device must offer for a worker, regardless of what runs on them now. */
export type WorkerNeed = Pick<Need, 'labels'> & Pick<ModelRecord, 'vramBytes'>;

/** A usable device and its workers. The sums are computed once and shared by all lanes planned in the same step. */
export class DeviceRoom {
  readonly pool: PoolEntry;
  readonly device: PoolDevice;
  readonly #view: EngineView;
  #workers: DeviceWorker[] | undefined;
  #sums: Sums | undefined;

  constructor(view: EngineView, pool: PoolEntry, device: PoolDevice) {
    this.#view = view;
    this.pool = pool;
    this.device = device;
  }

  get workers(): readonly DeviceWorker[] {
    const { fleet } = this.#view.queue;
    const { workers } = this.#view.state;
    const pool = this.pool.report.id;
    this.#workers ??= workers.on(pool, this.device.id).map(([id, record]) => {
      const name = workerBackend(pool, id);
      return { id, record, backend: fleet.backends.get(name), used: fleet.usedSlots(name) };
    });
    return this.#workers;
  }

  /** Its pool has as many workers as a manager may report: another one would have the whole report refused. */
  get isFull(): boolean {
    return this.#view.state.workers.countIn(this.pool.report.id) >= MAX_POOL_WORKERS;
  }

  /** The leases on the device. */
  get leases(): readonly LeaseRecord[] {
    return this.#view.state.leases.on(this.pool.report.id, this.device.id);
  }

  /** The free memory, less that of leases and of ordered workers that the manager does not report yet. */
  get freeBytes(): number {
    this.#sums ??= this.#add();
    return this.#sums.free;
  }

  /** The memory of workers that drain or stop. */
  get leavingBytes(): number {
    this.#sums ??= this.#add();
    return this.#sums.leaving;
  }

  /** The memory of idle workers that may be evicted. */
  get idleBytes(): number {
    this.#sums ??= this.#add();
    return this.#sums.idle;
  }

  /** Call after a worker was ordered, drained or stopped here. */
  changed(): void {
    this.#workers = undefined;
    this.#sums = undefined;
  }

  /**
   * The memory of a worker that the device still counts as free. All of it if the manager does not report the worker yet,
   * or the worker was given up and may still be starting. For one that is starting, what the manager keeps for it may be
   * an estimate, which is less than earlier workers with this model were measured to use.
   */
  #awaitedBytes(id: string, { vramBytes }: WorkerRecord): number {
    const reported = this.pool.workers.get(id);
    if (!reported) return vramBytes;
    return reported.status === 'starting' ? Math.max(0, vramBytes - reported.vramBytes) : 0;
  }

  #add(): Sums {
    const unused = unusedBytes(this.leases, this.device);
    const sums = { free: this.device.availableBytes - unused, leaving: 0, idle: 0 };
    for (const worker of this.workers) {
      const { id, record } = worker;
      sums.free -= this.#awaitedBytes(id, record);
      if (isLeaving(record)) sums.leaving += record.vramBytes;
      else if (mayLeave(worker)) sums.idle += record.vramBytes;
    }
    return sums;
  }
}

interface Sums {
  readonly free: number;
  readonly leaving: number;
  readonly idle: number;
}

export const isLeaving = ({ state }: WorkerRecord): boolean => state === 'stopping' || state === 'draining';

export const isIdle = ({ record, used }: DeviceWorker): boolean => record.state === 'running' && used === 0;

/** Idle, and kept by no worker pool. */
export const mayLeave = (worker: DeviceWorker): boolean =>
  isIdle(worker) && worker.record.workerPool === undefined;

/** The devices of all pools that answer and are not drained. */
export class Survey {
  readonly #view: EngineView;
  #rooms: readonly DeviceRoom[] | undefined;
  /** The result of `for` without labels, by vramBytes: many lanes need the same. */
  readonly #found = new Map<number, readonly DeviceRoom[]>();
  #mostFree: number | undefined;

  constructor(view: EngineView) {
    this.#view = view;
  }

  /** The most free memory of any device at the first call. It can only shrink within a step, so it is an upper bound. */
  get mostFree(): number {
    this.#mostFree ??= Math.max(0, ...this.all().map(({ freeBytes }) => freeBytes));
    return this.#mostFree;
  }

  /** The devices on which the worker would fit if they were empty. */
  for({ labels, vramBytes }: WorkerNeed): readonly DeviceRoom[] {
    const known = labels ? undefined : this.#found.get(vramBytes);
    if (known) return known;
    const rooms = this.all().filter(
      ({ pool, device }) =>
        device.totalBytes >= vramBytes &&
        hasLabels(pool, labels) &&
        isForUse(this.#view.queue.fleet, pool, labels),
    );
    if (!labels) this.#found.set(vramBytes, rooms);
    return rooms;
  }

  all(): readonly DeviceRoom[] {
    this.#rooms ??= this.#findRooms();
    return this.#rooms;
  }

  #findRooms(): DeviceRoom[] {
    const rooms: DeviceRoom[] = [];
    const { state } = this.#view;
    for (const [id, pool] of state.pools.known) {
      if (!pool.up || state.tables.pool.get(id)?.draining) continue;
      for (const device of pool.devices.values()) {
        if (device.ok) rooms.push(new DeviceRoom(this.#view, pool, device));
      }
    }
    return rooms;
  }
}

/** Whether jobs with these labels may use the pool: pools without a GPU may be kept for jobs that ask for them. */
export const isForUse = (
  { keepsCpu }: Pick<Fleet, 'keepsCpu'>,
  { report }: PoolEntry,
  labels: Need['labels'],
): boolean => !keepsCpu || !isCpu(report.labels) || isCpu(labels);

export function hasLabels(pool: PoolEntry, labels: Need['labels']): boolean {
  return !labels || Object.entries(labels).every(([name, value]) => labelOf(pool, name) === value);
}

function labelOf({ report }: PoolEntry, name: string): string | undefined {
  if (name === 'region') return report.region;
  if (name === 'pool') return report.id;
  return report.labels[name];
}

export const distanceTo = ({ pool }: DeviceRoom, region: string | undefined): number =>
  region === undefined || pool.report.region === region ? 0 : 1;

/** The device for another worker, if there is one. */
export const roomForWorker = (
  rooms: readonly DeviceRoom[],
  needBytes: number,
  region: string | undefined,
  last?: ReadonlySet<string>,
): DeviceRoom | undefined => roomiest(rooms, needBytes, region, last, ({ isFull }) => !isFull);

/** The device with enough free memory that is nearest and, among equals, has the most of it. */
export function roomiest(
  rooms: readonly DeviceRoom[],
  needBytes: number,
  region: string | undefined,
  /** Pools that are chosen only if no other has room. */
  last: ReadonlySet<string> = NONE,
  mayUse: (room: DeviceRoom) => boolean = () => true,
): DeviceRoom | undefined {
  let best: DeviceRoom | undefined;
  for (const room of rooms) {
    if (room.freeBytes < needBytes || (best && !isBetter(room, best, region, last))) continue;
    if (mayUse(room)) best = room;
  }
  return best;
}

const NONE: ReadonlySet<string> = new Set();

function isBetter(
  a: DeviceRoom,
  b: DeviceRoom,
  region: string | undefined,
  last: ReadonlySet<string>,
): boolean {
  const isLast = (room: DeviceRoom): boolean => last.has(room.pool.report.id);
  if (isLast(a) !== isLast(b)) return isLast(b);
  const nearer = distanceTo(a, region) - distanceTo(b, region);
  return nearer === 0 ? a.freeBytes > b.freeBytes : nearer < 0;
}
