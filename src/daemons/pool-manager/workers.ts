/** All workers of a pool: carries out the brain's orders to start, drain and stop them, and reserves their memory. */
import { timingSafeEqual } from 'node:crypto';
import { stableHash } from '../../kit/hash.ts';
import { signalMarked } from '../../kit/process/marked.ts';
import { isObject, readRecord } from '../../kit/record-file.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import { parseModelRef } from '../../model/model-ref.ts';
import type {
  DeviceState,
  StartWorker,
  WorkerOrdered,
  WorkerReady,
  WorkerState,
} from '../../model/pool-wire.ts';
import { WORKER_NAME } from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { deviceState } from './device-memory.ts';
import type { Devices } from './devices.ts';
import type { Launch, Launches } from './launches.ts';
import { isManagedWorkerRecord, type ManagedWorkerRecord, markOf, recordPath } from './layout.ts';
import { MemoryMeter } from './memory-meter.ts';
import { ManagedWorker } from './worker.ts';
import type { WorkerContext } from './worker-context.ts';

/** Maximum number of failed workers that are listed until they are stopped; beyond it the oldest are removed. */
const MAX_FAILED = 100;
/** Maximum number of ids of stopped workers that are kept: a start order that arrives late must not start them again. */
const MAX_STOPPED = 1000;

export interface WorkersOptions {
  readonly context: Omit<WorkerContext, 'onChange' | 'hasRoom'>;
  readonly devices: Devices;
  readonly launches: Launches;
  readonly maxWorkers: number;
  /** Whether stopping this service ends the workers; otherwise their processes go on, for the next manager. */
  readonly endsWorkers: boolean;
  readonly onChange: () => void;
}

export class Workers extends Service {
  readonly #options: WorkersOptions;
  readonly #context: WorkerContext;
  readonly #workers = new Map<string, ManagedWorker>();
  readonly #stopped = new Set<string>();
  readonly #meter = new MemoryMeter();

  constructor(options: WorkersOptions) {
    super();
    this.#options = options;
    this.#context = {
      ...options.context,
      hasRoom: (gpu, bytes) => (this.devices().find(({ id }) => id === gpu)?.available_vram ?? 0) >= bytes,
      onChange: (what) => this.#changed(what),
    };
  }

  get count(): number {
    return this.#living().length;
  }

  devices(): DeviceState[] {
    const { devices } = this.#options;
    const memories = this.#living().map(({ memory }) => memory);
    return devices.all.map((device) => deviceState(device, memories, devices.probedAt));
  }

  /** `withToken` includes the secret of each worker, which is called `token` on the wire. */
  views(withToken: boolean): WorkerState[] {
    return [...this.#workers.values()].map((worker) => worker.view(withToken));
  }

  /** Measures the device memory of the workers; call after every probe of the devices. */
  measure(): void {
    this.#meter.measure(this.#living(), this.#options.devices);
  }

  /** Takes over the workers on disk. No request may be answered before that. */
  protected async onStart(): Promise<void> {
    const { env, layout, logger, registry } = this.#context;
    const names = (await env.disk.list(layout.workers)).filter((name) => name.endsWith('.json'));
    const adopted: Promise<void>[] = [];
    for (const name of names) {
      const id = name.slice(0, -'.json'.length);
      const record = await readRecord(env.disk, recordPath(layout, id), isObject);
      if (!new RegExp(WORKER_NAME).test(id) || !isManagedWorkerRecord(record, id)) {
        // A worker whose record cannot be read cannot be managed, so its processes are killed.
        signalMarked(markOf(registry, id), undefined, 'SIGKILL');
        logger.error('the record of a worker cannot be read; its processes were ended', { worker_id: id });
        await env.disk.remove(recordPath(layout, id));
        continue;
      }
      const worker = new ManagedWorker(this.#context, record);
      this.#workers.set(id, worker);
      adopted.push(worker.adopt());
    }
    await Promise.all(adopted);
    this.measure();
    if (names.length > 0) logger.info('workers of an earlier manager were taken over', { count: this.count });
  }

  protected async onStop(): Promise<void> {
    const all = [...this.#workers.values()];
    if (this.#options.endsWorkers) await Promise.all(all.map((worker) => worker.end()));
    await Promise.all(all.map((worker) => worker.close()));
  }

  /** Idempotent for an order with a worker_id: the same order again returns the same worker. */
  async startWorker(order: StartWorker): Promise<WorkerOrdered> {
    const { env } = this.#context;
    const id = order.worker_id ?? `w-${env.random.hex(8)}`;
    const ref = parseModelRef(order.model_ref);
    if (this.#workers.has(id)) return this.#sameWorker(id, order);
    this.#checkDevice(order.gpu_id);
    const launch = await this.#options.launches.prepare(id, order, ref, this.#device(order.gpu_id).kind);
    if (this.#workers.has(id)) return this.#sameWorker(id, order);
    // No await between this check and `#workers.set`, so that two orders cannot reserve the same memory.
    this.#checkMayStart(id, order.gpu_id, launch.vramBytes);
    this.#meter.starts(id, order.gpu_id, this.#living(), this.#options.devices);
    const worker = new ManagedWorker(this.#context, recordOf(id, order, launch, env.clock.now()));
    this.#workers.set(id, worker);
    try {
      await worker.begin(launch);
    } catch (error) {
      this.#workers.delete(id);
      throw error;
    }
    this.#options.onChange();
    return { worker_id: id, status: worker.status };
  }

  async stopWorker(id: string, by: Commander): Promise<WorkerOrdered> {
    const worker = this.#worker(id);
    await worker.stop(by);
    return { worker_id: id, status: worker.status };
  }

  async drainWorker(id: string, deadlineMs: number | undefined, by: Commander): Promise<WorkerOrdered> {
    const worker = this.#worker(id);
    await worker.drain(deadlineMs, by);
    return { worker_id: id, status: worker.status };
  }

  /** The error is the same for a wrong id and a wrong secret; secrets of equal length are compared in constant time. */
  async ready(body: WorkerReady, secret: string): Promise<void> {
    const worker = this.#workers.get(body.worker_id);
    const expected = Buffer.from(worker?.record.secret ?? '');
    const given = Buffer.from(secret);
    const same = expected.length === given.length && timingSafeEqual(expected, given);
    if (!worker || !same || given.length === 0)
      throw new OrchdError('UNAUTHORIZED', 'no worker has this id and secret');
    await worker.ready(body);
  }

  #living(): ManagedWorker[] {
    return [...this.#workers.values()].filter(({ gone }) => !gone);
  }

  #worker(id: string): ManagedWorker {
    const worker = this.#workers.get(id);
    if (!worker) throw new OrchdError('WORKER_NOT_FOUND');
    return worker;
  }

  /** The reply to a repeated start order; throws where the order differs from the first. */
  async #sameWorker(id: string, order: StartWorker): Promise<WorkerOrdered> {
    const worker = this.#worker(id);
    if (stableHash({ ...worker.record.order, worker_id: id }) !== stableHash({ ...order, worker_id: id })) {
      throw new OrchdError('ILLEGAL_STATE', `the worker "${id}" was started with another order`);
    }
    await worker.begun;
    return { worker_id: id, status: worker.status };
  }

  #device(id: number): DeviceState {
    const device = this.devices().find((each) => each.id === id);
    if (!device)
      throw new OrchdError('GPU_UNAVAILABLE', `there is no device ${id} here`, { retriable: false });
    return device;
  }

  #checkDevice(id: number): void {
    const { status, reason } = this.#device(id);
    if (status !== 'ok') throw new OrchdError('GPU_UNAVAILABLE', `device ${id} cannot be used: ${reason}`);
  }

  #checkMayStart(id: string, gpu: number, bytes: number): void {
    if (this.stopSignal.aborted) throw new OrchdError('SHUTTING_DOWN');
    if (this.#stopped.has(id)) throw new OrchdError('ILLEGAL_STATE', `the worker "${id}" was stopped`);
    this.#checkDevice(gpu);
    const { available_vram } = this.#device(gpu);
    if (bytes > available_vram) {
      throw new OrchdError(
        'INSUFFICIENT_VRAM',
        `it needs ${bytes} bytes of device ${gpu}, which has ${available_vram} to give`,
      );
    }
    if (this.count >= this.#options.maxWorkers) {
      throw new OrchdError(
        'POOL_UNAVAILABLE',
        `this pool has ${this.#options.maxWorkers} workers, as many as it may`,
      );
    }
  }

  #changed(what: 'status' | 'ready' | 'gone'): void {
    for (const worker of [...this.#workers.values()]) if (worker.removed) this.#forget(worker);
    const failed = [...this.#workers.values()].filter(({ status, gone }) => status === 'failed' && gone);
    for (const worker of failed.slice(0, Math.max(0, failed.length - MAX_FAILED)))
      worker.stop().catch(() => undefined);
    this.#options.onChange();
    if (what === 'gone') this.#meter.freed(this.#context.env.clock.monotonic());
    // Device memory was taken or given back.
    if (what !== 'status') void this.#options.devices.refresh();
  }

  #forget({ id }: ManagedWorker): void {
    this.#workers.delete(id);
    this.#stopped.add(id);
    const [oldest] = this.#stopped;
    if (this.#stopped.size > MAX_STOPPED && oldest !== undefined) this.#stopped.delete(oldest);
  }
}

const recordOf = (id: string, order: StartWorker, launch: Launch, now: number): ManagedWorkerRecord => ({
  id,
  order,
  vramBytes: launch.vramBytes,
  secret: launch.secret,
  argvHash: stableHash(launch.argv),
  startedAt: now,
});
