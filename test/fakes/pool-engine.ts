/** An engine with pools whose managers do as they are told, at once or when asked to. */

import { dueWorkers } from '../../src/core/engine/due.ts';
import type { PoolDevice, PoolReport, ReportedWorker } from '../../src/core/ports/pools.ts';
import { type EngineSettings, POOL_DEFAULTS, type PoolSettings } from '../../src/core/settings.ts';
import { errorInfo } from '../../src/model/errors.ts';
import type { ModelRegistration, WorkerRecord } from '../../src/model/records.ts';
import { EngineKit, type Fields } from './engine-kit.ts';

export const GB = 1_000_000_000;

interface FakePool {
  readonly id: string;
  readonly region: string | undefined;
  readonly labels: Record<string, string>;
  readonly devices: Map<number, number>;
  readonly workers: Map<string, ReportedWorker>;
  /** Of each device, by other programs. */
  usedBytes: number;
  /** What holders of leases use of each device. */
  readonly heldBytes: Map<number, number>;
  registry: string;
  version: number;
}

export class PoolKit extends EngineKit {
  readonly pools = new Map<string, FakePool>();
  /** Models whose workers never become ready. */
  readonly broken = new Set<string>();

  constructor(
    pools: Partial<PoolSettings> = {},
    settings: Partial<EngineSettings> = {},
    random?: () => number,
  ) {
    super({ ...settings, pools: { ...POOL_DEFAULTS, prewarm: false, ...pools } }, random);
  }

  model(id: string, fields: Partial<ModelRegistration> = {}): string {
    const model: ModelRegistration = {
      id,
      name: id,
      ref: `file:/models/${id}.gguf`,
      aliases: [],
      sizeBytes: GB,
      vramBytes: 10 * GB,
      vramGuessed: undefined,
      contextLength: 8192,
      slots: 1,
      sha256: undefined,
      signature: undefined,
      publicKey: undefined,
      ...fields,
    };
    this.step({ type: 'register', model });
    return model.ref;
  }

  pool(
    id: string,
    devicesGb: readonly number[],
    where: { region?: string; labels?: Record<string, string>; usedGb?: number } = {},
  ): void {
    this.pools.set(id, {
      id,
      region: where.region,
      labels: where.labels ?? {},
      devices: new Map(devicesGb.map((size, at) => [at, size * GB])),
      workers: new Map(),
      usedBytes: (where.usedGb ?? 0) * GB,
      heldBytes: new Map(),
      registry: `memory of ${id}`,
      version: 1,
    });
    this.report(id);
  }

  ask(id: string, model: string, fields: Fields = {}): string {
    this.submit(id, { type: 'inference', model, ...fields });
    return id;
  }

  report(id: string): void {
    this.step({ type: 'pool', report: this.reportOf(id) });
  }

  reportOf(id: string): PoolReport {
    const pool = this.pools.get(id) as FakePool;
    const devices = [...pool.devices].map(([device, total]): PoolDevice => {
      const used = [...pool.workers.values()].filter((worker) => worker.device === device);
      const allocated = used.reduce((sum, { vramBytes }) => sum + vramBytes, 0);
      return {
        id: device,
        totalBytes: total,
        allocatedBytes: allocated,
        availableBytes: total - allocated - pool.usedBytes - (pool.heldBytes.get(device) ?? 0),
        ok: true,
        reason: undefined,
      };
    });
    const { registry, version, region, labels } = pool;
    return { id, registry, version, region, labels, devices, workers: [...pool.workers.values()] };
  }

  /** Carries out what is due, as a manager would, and reports until nothing more is. Returns what was done. */
  obey(): string[] {
    const done: string[] = [];
    for (let round = 0; round < 20; round++) {
      const due = dueWorkers(this.engine.state);
      if (due.length === 0) return done;
      for (const { kind, id, record } of due) {
        done.push(`${kind} ${this.engine.state.catalog.find(record.modelRef)?.id ?? record.modelRef}`);
        this.carryOut(kind, id, record);
        this.report(record.pool);
      }
    }
    throw new Error(`it does not come to rest: ${done.join(', ')}`);
  }

  carryOut(kind: 'start' | 'drain' | 'stop', id: string, record: WorkerRecord): void {
    const pool = this.pools.get(record.pool) as FakePool;
    pool.version++;
    if (kind === 'stop') pool.workers.delete(id);
    else if (kind === 'start') pool.workers.set(id, this.#worker(id, record));
    else this.set(record.pool, id, { status: 'draining' });
  }

  set(pool: string, worker: string, fields: Partial<ReportedWorker>): void {
    const known = this.pools.get(pool)?.workers.get(worker);
    if (known) this.pools.get(pool)?.workers.set(worker, { ...known, ...fields });
  }

  /** Another brain on the same records: it knows of the pools only what it is told from now on. */
  reborn(next: PoolKit): PoolKit {
    for (const { change, at } of this.log) next.engine.state.apply(change, at);
    next.now = this.now;
    for (const [id, pool] of this.pools) next.pools.set(id, pool);
    next.step({ type: 'open', owner: 'kit' });
    return next;
  }

  /** Its process is gone without an order. */
  dies(pool: string, worker: string): void {
    this.pools.get(pool)?.workers.delete(worker);
    this.report(pool);
  }

  #worker(id: string, record: WorkerRecord): ReportedWorker {
    const isBroken = this.broken.has(record.modelRef);
    return {
      id,
      modelRef: record.modelRef,
      device: record.device,
      vramBytes: record.vramBytes,
      status: isBroken ? 'failed' : 'ready',
      unusable: undefined,
      error: isBroken ? errorInfo('WORKER_START_FAILED', 'no such file') : undefined,
      slots: record.slots ?? 1,
      contextLength: record.contextLength,
      registry: `memory of ${id}`,
      paid: false,
    };
  }

  /** The workers there should be: model and state. */
  workers(): string[] {
    const { workers, catalog } = this.engine.state;
    return [...workers.values()].map((each) => `${catalog.find(each.modelRef)?.id} ${each.state}`).sort();
  }

  workerOf(jobId: string): string {
    return this.job(jobId).job.backend ?? '';
  }
}
