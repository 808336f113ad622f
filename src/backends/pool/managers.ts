/** The pool managers that are configured, and those that have registered, with the ways to their workers. */

import type { Backend, BackendInfo, BackendListener } from '../../core/ports/backend.ts';
import type { PoolManagers, PoolsListener, WorkerOrder } from '../../core/ports/pools.ts';
import { workerInfo } from '../../core/ports/pools.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { OrchdError } from '../../model/errors.ts';
import type {
  PoolState,
  ResolvedModel,
  VerifyModel,
  VerifyResult,
  WorkerState,
} from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { Outbound, type Target } from '../../wire/outbound.ts';
import { type AskedPool, resolveModel, verifyModel } from './model-questions.ts';
import { PoolClient } from './pool-client.ts';
import { type MayReach, reachable, reportOf } from './report.ts';
import { WorkerBackend } from './worker-backend.ts';

export interface ManagersOptions {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly pools: readonly { readonly url: string; readonly secret: string | undefined }[];
  readonly maxAgeMs: number;
  readonly startTimeoutMs: number;
  /** Hosts beside that of its manager that a worker may be at. */
  readonly allowedHosts: readonly string[];
  /** One stream for each job that a worker runs. */
  readonly maxStreams: number;
}

/** More have not registered with one brain; a caller that makes names up must not fill its memory. */
const MAX_POOLS = 10_000;

interface Known {
  readonly client: PoolClient;
  readonly secret: string | undefined;
  readonly mayReach: MayReach;
  /** Whoever only registers cannot take its place. */
  readonly isConfigured: boolean;
  id: string | undefined;
}

interface Added extends Pick<Known, 'secret' | 'id' | 'isConfigured'> {
  readonly url: string;
}

interface ReachedWorker {
  readonly uri: string;
  readonly secret: string | undefined;
  readonly backend: WorkerBackend;
}

export class HttpPoolManagers implements PoolManagers {
  readonly #options: ManagersOptions;
  readonly #outbound: Outbound;
  /** By URL. */
  readonly #known = new Map<string, Known>();
  /** By the name of the backend. */
  readonly #reached = new Map<string, ReachedWorker>();
  #listener: PoolsListener | undefined;
  #backends: BackendListener | undefined;

  constructor(options: ManagersOptions) {
    this.#options = options;
    const limits = { maxStreams: options.maxStreams };
    this.#outbound = new Outbound({ timers: options.env.timers, limits });
  }

  watch(listener: PoolsListener): void {
    this.#listener = listener;
  }

  start(listener: BackendListener): void {
    this.#backends = listener;
    for (const { url, secret } of this.#options.pools)
      this.#add({ url, secret, id: undefined, isConfigured: true }, this.#outbound.to(url));
  }

  async stop(): Promise<void> {
    this.#listener = undefined;
    this.#backends = undefined;
    await Promise.all([...this.#known.values()].map(({ client }) => client.stop()));
    this.#outbound.close();
  }

  /** A pool manager has said where it is, and says so again as a sign of life. */
  register(url: string, secret: string | undefined, id: string): void {
    const base = url.replace(/\/+$/, '');
    const known = this.#known.get(base);
    // What answers is known by what it says itself; one that refuses us may have another secret by now.
    if (known && (known.client.answers || known.secret === secret)) return;
    const former = this.#placeOf(id);
    // Of two machines with one name each would be given the orders of the other.
    if (former !== undefined && former !== base && this.#known.get(former)?.client.answers)
      throw new OrchdError('ILLEGAL_STATE', `another pool manager has the name "${id}", and answers`);
    if (!known && this.#known.size >= MAX_POOLS)
      throw new OrchdError('ADMISSION_REJECT', 'too many pools are registered');
    if (former !== undefined && this.#known.get(former)?.isConfigured && former !== base)
      throw new OrchdError('FORBIDDEN', `the pool "${id}" is configured, at another address`);
    // Throws where it is no address, before anything has changed.
    const target = this.#outbound.to(base);
    if (known) this.#drop(base);
    // It has moved: whoever is at its former address is no longer asked.
    if (former !== undefined && former !== base) this.#drop(former);
    this.#add({ url: base, secret, id, isConfigured: known?.isConfigured ?? false }, target);
  }

  #placeOf(id: string): string | undefined {
    for (const [url, known] of this.#known) if (known.id === id) return url;
    return undefined;
  }

  clientOf(pool: string): PoolClient {
    for (const { id, client } of this.#known.values()) if (id === pool) return client;
    throw new OrchdError('POOL_UNAVAILABLE', `the pool "${pool}" cannot be reached`);
  }

  async startWorker(order: WorkerOrder, who: Commander): Promise<void> {
    const { id, pool, device, modelRef, vramBytes, vramGuessed, slots, contextLength } = order;
    const body = {
      worker_id: id,
      model_ref: modelRef,
      gpu_id: device,
      timeout_ms: this.#options.startTimeoutMs,
      // What was guessed here is guessed there too, and by whoever has the file.
      ...(!vramGuessed && { vram_bytes: vramBytes }),
      ...(slots !== undefined && { slots }),
      ...(contextLength !== undefined && { context_length: contextLength }),
    };
    await this.clientOf(pool).startWorker(body, who);
  }

  async drainWorker(pool: string, worker: string, who: Commander): Promise<void> {
    await this.clientOf(pool).drainWorker(worker, who);
  }

  async stopWorker(pool: string, worker: string, who: Commander): Promise<void> {
    await this.clientOf(pool).stopWorker(worker, who);
  }

  resolve(ref: string): Promise<ResolvedModel | undefined> {
    return resolveModel(this.#asked(), ref);
  }

  verify(
    model: VerifyModel,
    onProgress: (bytes: number, total: number) => void,
  ): Promise<VerifyResult & { readonly pool: string }> {
    return verifyModel(this.#asked(), model, onProgress);
  }

  #asked(): AskedPool[] {
    const asked: AskedPool[] = [];
    for (const { id, client } of this.#known.values()) if (id !== undefined) asked.push({ id, client });
    return asked;
  }

  #add({ url, secret, id, isConfigured }: Added, target: Target): void {
    const { env, maxAgeMs, allowedHosts } = this.#options;
    const name = id ?? url;
    this.#listener?.awaited(name, true);
    const client = new PoolClient({
      env,
      url,
      secret,
      maxAgeMs,
      target,
      onState: (state) => this.#heard(url, state),
      onLost: (error) => this.#lost(url, error),
    });
    this.#known.set(url, { client, secret, mayReach: reachable(url, allowedHosts), isConfigured, id });
    void client.start();
  }

  #drop(url: string): void {
    const known = this.#known.get(url);
    if (!known) return;
    void known.client.stop();
    this.#known.delete(url);
    this.#unname(url, known);
  }

  /** Nobody is to wait for it, or to order it about, under the name that it had. */
  #unname(url: string, known: Known): void {
    this.#listener?.awaited(known.id ?? url, false);
    if (known.id !== undefined) this.#listener?.lost(known.id);
    known.id = undefined;
  }

  #heard(url: string, state: PoolState): void {
    const known = this.#known.get(url);
    if (!known || !this.#listener) return;
    // Another one is there by now, or it has another name: what was known of the former is not true of it.
    if (known.id !== state.pool_id) this.#unname(url, known);
    const holder = this.#placeOf(state.pool_id);
    if (holder !== undefined && holder !== url) {
      this.#options.logger?.warn('a pool manager has the name of another one', { reason: state.pool_id });
      return;
    }
    known.id = state.pool_id;
    this.#listener.awaited(state.pool_id, false);
    const report = reportOf(state, known.mayReach);
    for (const [at, worker] of report.workers.entries()) {
      const said = state.workers[at] as WorkerState;
      if (worker.unusable !== undefined || said.uri === undefined || worker.registry === '') continue;
      this.#backends?.present(this.#backendAt(workerInfo(report, worker), said.uri, said.token));
    }
    this.#listener.reported(report);
  }

  /** The same object as long as nothing of it has changed: it may hold streams. */
  #backendAt(info: BackendInfo, uri: string, secret: string | undefined): Backend {
    const known = this.#reached.get(info.name);
    if (known?.uri === uri && known.secret === secret && known.backend.info.registry === info.registry) {
      return known.backend;
    }
    const { timers } = this.#options.env;
    const backend = new WorkerBackend({ info, secret, timers, target: this.#outbound.to(uri) });
    known?.backend.retire();
    this.#reached.set(info.name, { uri, secret, backend });
    return backend;
  }

  /** The pool is gone for good: it is not asked any more, unless it registers again. */
  forgetPool(id: string): void {
    for (const [url, known] of this.#known) if (known.id === id && !known.isConfigured) this.#drop(url);
  }

  /** It is not asked for any more: the worker is gone. */
  forget(backend: string): void {
    void this.#reached.get(backend)?.backend.stop();
    this.#reached.delete(backend);
  }

  #lost(url: string, error: Error): void {
    const id = this.#known.get(url)?.id;
    this.#options.logger?.warn('a pool manager does not answer', {
      reason: error instanceof OrchdError ? error.code : 'WORKER_PROTOCOL',
    });
    if (id !== undefined) this.#listener?.lost(id);
  }
}
