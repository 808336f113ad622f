/** Pool managers that take every order, and report what the script lets them report. */
import type { PoolReport, ReportedWorker } from '../../../src/core/ports/pools.ts';
import type { Backend, BackendListener } from '../../../src/core/ports/backend.ts';
import type { PoolManagers, PoolsListener, WorkerOrder } from '../../../src/core/ports/pools.ts';
import { errorInfo } from '../../../src/model/errors.ts';

export const GB = 1_000_000_000;

interface Pool {
  readonly region: string | undefined;
  readonly labels: Record<string, string>;
  /** Bytes of each device. */
  readonly devices: readonly number[];
  readonly workers: Map<string, ReportedWorker>;
  /** The identity of the manager's memory. */
  registry: string;
  version: number;
}

export class ScriptedPools implements PoolManagers {
  /** Every start that was ordered, in order. */
  readonly starts: WorkerOrder[] = [];
  /** Every order to drain or stop a worker, in order. */
  readonly endings: string[] = [];
  readonly #executorOf: (info: Backend['info']) => Backend;
  readonly #pools = new Map<string, Pool>();
  readonly #executors = new Map<string, Backend>();
  /** Devices with an error, by pool. */
  readonly #broken = new Map<string, Set<number>>();
  #listener: PoolsListener | undefined;
  #backends: BackendListener | undefined;
  #onOrder: (() => void) | undefined;

  constructor(executorOf: (info: Backend['info']) => Backend) {
    this.#executorOf = executorOf;
  }

  add(id: string, devicesGb: readonly number[], region?: string, labels: Record<string, string> = {}): void {
    const devices = devicesGb.map((size) => size * GB);
    this.#pools.set(id, {
      region,
      labels,
      devices,
      workers: new Map(),
      registry: `memory of ${id}`,
      version: 0,
    });
    this.report(id);
  }

  /** Shows a worker that was ordered as ready, or as one that could not be started. */
  show(order: WorkerOrder, status: 'ready' | 'failed' = 'ready'): void {
    const { id, pool, device, modelRef, vramBytes, slots = 1, contextLength } = order;
    this.#pools.get(pool)?.workers.set(id, {
      id,
      modelRef,
      device,
      vramBytes,
      status,
      unusable: undefined,
      error: status === 'failed' ? errorInfo('WORKER_START_FAILED', 'the file is no model') : undefined,
      slots: slots ?? 1,
      contextLength,
      registry: status === 'failed' ? '' : `memory of ${id}`,
      paid: false,
    });
    this.report(pool);
  }

  /** A worker is gone: its pool shows it no more. */
  hide(pool: string, worker: string): void {
    this.#pools.get(pool)?.workers.delete(worker);
    this.report(pool);
  }

  /** A manager has lost its memory, and with it all of its workers. */
  forgets(id: string): void {
    const pool = this.#pools.get(id) as Pool;
    pool.registry = `new memory of ${id}`;
    pool.workers.clear();
    this.report(id);
  }

  /** A device has an error, as its manager shows it, or is well again. */
  setDevice(id: string, device: number, is: 'gone' | 'back'): void {
    const broken = this.#broken.get(id) ?? new Set();
    if (is === 'gone') broken.add(device);
    else broken.delete(device);
    this.#broken.set(id, broken);
    this.report(id);
  }

  report(id: string): void {
    const pool = this.#pools.get(id) as Pool;
    pool.version++;
    const workers = [...pool.workers.values()];
    const report: PoolReport = {
      id,
      registry: pool.registry,
      version: pool.version,
      region: pool.region,
      labels: pool.labels,
      devices: pool.devices.map((totalBytes, device) => ({
        id: device,
        totalBytes,
        allocatedBytes: allocatedOn(workers, device),
        availableBytes: totalBytes - allocatedOn(workers, device),
        ok: !this.#broken.get(id)?.has(device),
        reason: undefined,
      })),
      workers,
    };
    const ready = workers.filter(({ status }) => status === 'ready');
    for (const worker of ready) this.#backends?.present(this.#executor(id, worker));
    this.#listener?.reported(report);
  }

  /** Resolves when so many orders were given. */
  ordered(count: number): Promise<void> {
    return this.#when(() => this.starts.length + this.endings.length >= count);
  }

  /** Resolves when a start with this model was ordered. */
  started(modelRef: string): Promise<void> {
    return this.#when(() => this.starts.some((order) => order.modelRef === modelRef));
  }

  #when(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#onOrder = () => {
        if (isSo()) resolve();
      };
      this.#onOrder();
    });
  }

  watch(listener: PoolsListener): void {
    this.#listener = listener;
  }

  start(listener: BackendListener): void {
    this.#backends = listener;
    for (const id of this.#pools.keys()) this.report(id);
  }

  async stop(): Promise<void> {
    this.#listener = undefined;
    this.#backends = undefined;
  }

  async startWorker(order: WorkerOrder): Promise<string> {
    this.starts.push(order);
    this.#onOrder?.();
    return order.id;
  }

  async drainWorker(pool: string, worker: string): Promise<void> {
    this.endings.push(`drain ${pool}/${worker}`);
    this.#onOrder?.();
  }

  async stopWorker(pool: string, worker: string): Promise<void> {
    this.endings.push(`stop ${pool}/${worker}`);
    this.#onOrder?.();
  }

  register(): void {}
  async resolve(): Promise<undefined> {}
  verify(): Promise<never> {
    return Promise.reject(new Error('the script verifies nothing'));
  }
  addressOf(): undefined {}
  forgetPool(): void {}
  forget(): void {}

  #executor(pool: string, { id, modelRef, slots, registry, device }: ReportedWorker): Backend {
    const name = `${pool}/${id}`;
    const known = this.#executors.get(name);
    if (known) return known;
    const executor = this.#executorOf({
      name,
      kind: 'worker',
      slots,
      types: ['inference'],
      models: [modelRef],
      labels: { pool },
      paid: false,
      keepsResults: true,
      registry,
      home: { pool, device },
    });
    this.#executors.set(name, executor);
    return executor;
  }
}

const allocatedOn = (workers: readonly ReportedWorker[], device: number): number =>
  workers.filter((worker) => worker.device === device).reduce((sum, { vramBytes }) => sum + vramBytes, 0);
