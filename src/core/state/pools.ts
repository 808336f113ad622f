/**
 * The pools as their managers last described them. Not persisted: a brain that starts knows nothing of devices
 * until it has asked.
 */
import type { ErrorInfo } from '../../model/errors.ts';
import type { PoolDevice, PoolReport, ReportedWorker } from '../ports/pools.ts';

export class PoolEntry {
  report: PoolReport;
  /** Whether it has answered of late: what does not gets nothing. */
  up = true;
  heardAt: number;
  readonly devices = new Map<number, PoolDevice>();
  readonly workers = new Map<string, ReportedWorker>();

  constructor(report: PoolReport, now: number) {
    this.report = report;
    this.heardAt = now;
    this.heard(report, now);
  }

  heard(report: PoolReport, now: number): void {
    this.report = report;
    this.up = true;
    this.heardAt = now;
    this.devices.clear();
    this.workers.clear();
    for (const device of report.devices) this.devices.set(device.id, device);
    for (const worker of report.workers) this.workers.set(worker.id, worker);
  }
}

/** A model whose workers failed to start: how often in a row, and until when none is tried. */
export interface FailedStarts {
  readonly tries: number;
  readonly error: ErrorInfo;
  readonly until: number;
  /** The pools that could not start it: others are tried before them. */
  readonly where: ReadonlySet<string>;
}

export class Pools {
  readonly known = new Map<string, PoolEntry>();
  /** Pools that are configured, or have registered, and have not answered yet. */
  readonly awaited = new Set<string>();
  /** By model. */
  readonly failedStarts = new Map<string, FailedStarts>();
  /** How long a start took when one was last seen, by model. */
  readonly startMs = new Map<string, number>();
  /** When a model last had to make room for another. */
  readonly evictedAt = new Map<string, number>();
  /** When it was last looked ahead. */
  lookedAheadAt = 0;
  /** Something has changed that all waiting lanes should be looked at for. */
  changed = false;

  /** Whether any of them can be reached. */
  someUp(): boolean {
    for (const { up } of this.known.values()) if (up) return true;
    return false;
  }

  /**
   * Whether no device of any pool is large enough for a model of this size, and all pools have been heard: one that
   * has not answered yet may have such a device.
   */
  fitsNowhere(vramBytes: number): boolean {
    if (this.known.size === 0 || this.awaited.size > 0) return false;
    for (const pool of this.known.values()) {
      for (const device of pool.devices.values()) if (device.totalBytes >= vramBytes) return false;
    }
    return true;
  }

  heard(report: PoolReport, now: number): PoolEntry {
    const known = this.known.get(report.id);
    if (!known?.up || known.report.version !== report.version) this.changed = true;
    if (known) {
      known.heard(report, now);
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
