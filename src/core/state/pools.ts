/**
 * The pools as last reported by their managers, and what starts and evictions have shown of models. Not persisted: a
 * brain that starts has no devices until the first reports arrive.
 */
import type { ErrorInfo } from '../../model/errors.ts';
import type { LeaseRecord } from '../../model/lease-record.ts';
import { isCpu } from '../../model/policy.ts';
import type { PoolDevice, PoolReport, ReportedWorker } from '../ports/pools.ts';

export class PoolEntry {
  report: PoolReport;
  /** Whether the pool answers. One that does not gets no jobs and no orders. */
  up = true;
  /** Why the pool does not count as answering although its manager does: its last report was refused. */
  problem: string | undefined;
  /** The time of the last report. */
  reportedAt: number;
  readonly devices = new Map<number, PoolDevice>();
  readonly workers = new Map<string, ReportedWorker>();
  /** Leases that have ended since the last report, which may still count the memory that their holders used. */
  readonly endedLeases: LeaseRecord[] = [];

  constructor(report: PoolReport, now: number) {
    this.report = report;
    this.reportedAt = now;
    this.update(report, now);
  }

  update(report: PoolReport, now: number): void {
    this.report = report;
    this.up = true;
    this.problem = undefined;
    this.reportedAt = now;
    this.devices.clear();
    this.workers.clear();
    this.endedLeases.length = 0;
    for (const device of report.devices) this.devices.set(device.id, device);
    for (const worker of report.workers) this.workers.set(worker.id, worker);
  }
}

/** The failed starts of a model's workers. */
export interface FailedStarts {
  /** How many starts have failed in a row. */
  readonly tries: number;
  /** The error of the last one. */
  readonly error: ErrorInfo;
  /** No start is tried before this instant. */
  readonly until: number;
  /** The pools in which a start has failed: other pools are tried before them. */
  readonly where: ReadonlySet<string>;
}

export class Pools {
  readonly known = new Map<string, PoolEntry>();
  /** Pools that are configured or have registered, and have not reported yet. */
  readonly awaited = new Set<string>();
  /** By model ref. */
  readonly failedStarts = new Map<string, FailedStarts>();
  /** How long the last successful start took, by model ref. */
  readonly startMs = new Map<string, number>();
  /** When a worker of the model was last evicted or drained for another model, by model ref. */
  readonly evictedAt = new Map<string, number>();
  /** When a worker pool last had work, by its id, as of the ticks of this life. */
  readonly poolsUsedAt = new Map<string, number>();
  /** Worker pools without work for longer than they are held: they have no more workers than the policy keeps warm. */
  readonly restingPools = new Set<string>();
  /** When this brain has opened its store. */
  openedAt = 0;
  /** When the demand was last forecast. */
  forecastAt = 0;
  /** Set when something has changed that may let a waiting lane be served: the next plan() visits all of them. */
  changed = false;
  /** What `memory` has found; undefined once a pool has reported since. */
  #memory: { readonly used: number; readonly total: number } | undefined;

  /** The memory of all GPUs of the pools that answer, at their last reports. Computed once for each report. */
  memory(): { readonly used: number; readonly total: number } {
    if (this.#memory) return this.#memory;
    let [used, total] = [0, 0];
    for (const pool of this.known.values())
      for (const { totalBytes, availableBytes } of pool.up && !isCpu(pool.report.labels)
        ? pool.devices.values()
        : []) {
        used += totalBytes - availableBytes;
        total += totalBytes;
      }
    this.#memory = { used, total };
    return this.#memory;
  }

  /** What devices use has changed, or which pools answer. */
  remeasure(): void {
    this.#memory = undefined;
  }

  /** The memory that it held may be what a worker waits for. */
  leaseEnded(lease: LeaseRecord): void {
    const entry = lease.pool === undefined ? undefined : this.known.get(lease.pool);
    if (!entry) return;
    entry.endedLeases.push(lease);
    this.changed = true;
  }

  /** The worker pool begins anew, or is gone. */
  forgetUse(workerPool: string): void {
    this.poolsUsedAt.delete(workerPool);
    this.restingPools.delete(workerPool);
  }

  /** Brain time was stepped: the rest of every wait stays as it was. */
  moveInstants(byMs: number): void {
    for (const [ref, failed] of [...this.failedStarts])
      this.failedStarts.set(ref, { ...failed, until: failed.until + byMs });
    for (const [ref, at] of [...this.evictedAt]) this.evictedAt.set(ref, at + byMs);
    for (const [id, at] of [...this.poolsUsedAt]) this.poolsUsedAt.set(id, at + byMs);
    for (const pool of this.known.values()) pool.reportedAt += byMs;
    this.openedAt += byMs;
    this.forecastAt += byMs;
  }

  /** Since when the pool has not answered, or this brain has waited for its first report; undefined while it answers. */
  silentSince(id: string): number | undefined {
    const entry = this.known.get(id);
    if (!entry) return this.openedAt;
    return entry.up ? undefined : entry.reportedAt;
  }

  isAnyUp(): boolean {
    for (const { up } of this.known.values()) if (up) return true;
    return false;
  }

  /**
   * Whether no device of any pool is large enough for a model of this size. False while some pool has not reported yet:
   * it may have such a device.
   */
  fitsNowhere(vramBytes: number): boolean {
    if (this.known.size === 0 || this.awaited.size > 0) return false;
    for (const pool of this.known.values()) {
      for (const device of pool.devices.values()) if (device.totalBytes >= vramBytes) return false;
    }
    return true;
  }

  update(report: PoolReport, now: number): PoolEntry {
    this.remeasure();
    const known = this.known.get(report.id);
    if (!known?.up || known.report.version !== report.version) this.changed = true;
    if (known) {
      known.update(report, now);
      return known;
    }
    const entry = new PoolEntry(report, now);
    this.known.set(report.id, entry);
    return entry;
  }

  get(id: string): PoolEntry | undefined {
    return this.known.get(id);
  }

  device(pool: string, device: number): PoolDevice | undefined {
    return this.known.get(pool)?.devices.get(device);
  }
}
