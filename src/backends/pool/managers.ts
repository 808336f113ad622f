/**
 * All pool managers that the brain knows, configured or self-registered, and the backends for their workers.
 *
 * M1  A pool name belongs to one address at a time: two managers with one name would receive each other's orders.
 * M2  A registration never displaces a manager that answers, never moves a configured pool to another address, and never
 *     replaces a configured secret.
 * M3  A registration makes the brain send requests, so its host has to be allowed, and their number is bounded: an
 *     address that never answers as a pool manager is asked less and less often, and given up.
 */

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
import { ExecutorBackend } from '../executor/executor-backend.ts';
import { allowUris, type IsAllowedUri } from './allowed-uris.ts';
import { StateCompletion } from './complete-state.ts';
import { type NamedPool, resolveModel, verifyModel } from './model-queries.ts';
import { isRefusedReport, PoolClient } from './pool-client.ts';
import type { PoolHosts } from './pool-hosts.ts';
import { reportOf } from './report.ts';
import { WORKER_PROTOCOL } from './worker-protocol.ts';

export interface ManagersOptions {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly pools: readonly { readonly url: string; readonly secret: string | undefined }[];
  readonly maxAgeMs: number;
  readonly startTimeoutMs: number;
  /** Where pool managers may register. */
  readonly registrationHosts: PoolHosts;
  /** Hosts on which workers may be, beside the host of their manager. */
  readonly allowedWorkerHosts: readonly string[];
  /** Maximum number of event streams that are open to one worker: one for each job that it runs. */
  readonly maxStreams: number;
}

/** Maximum number of pools that a brain accepts: a caller that registers made-up names must not fill its memory. */
const MAX_POOLS = 10_000;
/** Maximum number of registered pools that have not answered yet (M3). */
const MAX_UNANSWERED = 100;
/** A registered address that has not answered as a pool manager for this long is given up (M3). */
const GIVE_UP_MS = 120_000;

interface PoolEntry {
  readonly client: PoolClient;
  readonly secret: string | undefined;
  readonly isAllowed: IsAllowedUri;
  readonly completion: StateCompletion;
  /** Configured pools cannot be moved by a registration. */
  readonly isConfigured: boolean;
  /** The pool's name; undefined until a configured pool has reported it. */
  id: string | undefined;
}

interface NewPool extends Pick<PoolEntry, 'secret' | 'id' | 'isConfigured'> {
  readonly url: string;
  /** How long the first poll waits. */
  readonly delayMs?: number;
}

interface WorkerEntry {
  readonly uri: string;
  readonly secret: string | undefined;
  readonly backend: ExecutorBackend;
}

export class HttpPoolManagers implements PoolManagers {
  readonly #options: ManagersOptions;
  readonly #outbound: Outbound;
  /** For registered pools and their workers: connects only to addresses that are allowed for them (M3). */
  readonly #registeredOutbound: Outbound;
  /** Keyed by URL. */
  readonly #pools = new Map<string, PoolEntry>();
  /** Keyed by the name of the backend. */
  readonly #workers = new Map<string, WorkerEntry>();
  #listener: PoolsListener | undefined;
  #backends: BackendListener | undefined;

  constructor(options: ManagersOptions) {
    this.#options = options;
    const { env, maxStreams, registrationHosts } = options;
    const common = { timers: env.timers, limits: { maxStreams } };
    this.#outbound = new Outbound(common);
    const resolve = (host: string) => registrationHosts.resolve(host);
    this.#registeredOutbound = new Outbound({ ...common, resolve });
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
    await Promise.all([...this.#pools.values()].map(({ client }) => client.stop()));
    this.#outbound.close();
    this.#registeredOutbound.close();
  }

  /** Called when a pool manager announces its address, which it repeats as a sign of life. */
  register(url: string, secret: string | undefined, id: string): void {
    const base = url.replace(/\/+$/, '');
    this.#options.registrationHosts.check(base);
    const known = this.#pools.get(base);
    // M2. A manager at this address that does not answer may have a new secret: then it is added again below.
    if (known && (known.client.isAnswering || known.secret === secret || this.#isSecretConfigured(base)))
      return;
    const former = this.addressOf(id);
    // M1: the name belongs to a manager that answers at another address.
    if (former !== undefined && former !== base && this.#pools.get(former)?.client.isAnswering)
      throw new OrchdError('ILLEGAL_STATE', `another pool manager has the name "${id}", and answers`);
    if (!known && this.#pools.size >= MAX_POOLS)
      throw new OrchdError('ADMISSION_REJECT', 'too many pools are registered');
    if (former !== undefined && this.#pools.get(former)?.isConfigured && former !== base)
      throw new OrchdError('FORBIDDEN', `the pool "${id}" is configured, at another address`);
    if (!known && this.#unanswered() >= MAX_UNANSWERED) {
      const what = 'too many registered pools have not answered yet';
      throw new OrchdError('ADMISSION_REJECT', what, { retriable: true });
    }
    const isConfigured = known?.isConfigured ?? false;
    // Throws on an invalid address, so it comes before any change.
    const target = this.#outboundOf(isConfigured).to(base);
    // M3: a registration with another secret does not make the brain ask earlier.
    const delayMs = known?.client.nextPollMs ?? 0;
    if (known) this.#drop(base);
    // The pool has moved: its former address is no longer polled.
    if (former !== undefined && former !== base) this.#drop(former);
    this.#add({ url: base, secret, id, isConfigured, delayMs }, target);
  }

  #isSecretConfigured(base: string): boolean {
    return this.#options.pools.some(({ url, secret }) => url === base && secret !== undefined);
  }

  #outboundOf(isConfigured: boolean): Outbound {
    return isConfigured ? this.#outbound : this.#registeredOutbound;
  }

  #unanswered(): number {
    let count = 0;
    for (const { isConfigured, client } of this.#pools.values())
      if (!isConfigured && !client.hasAnswered) count++;
    return count;
  }

  addressOf(id: string): string | undefined {
    for (const [url, pool] of this.#pools) if (pool.id === id) return url;
    return undefined;
  }

  clientOf(pool: string): PoolClient {
    for (const { id, client } of this.#pools.values()) if (id === pool) return client;
    throw new OrchdError('POOL_UNAVAILABLE', `the pool "${pool}" cannot be reached`);
  }

  async startWorker(order: WorkerOrder, who: Commander): Promise<string> {
    const { id, pool, device, modelRef, vramBytes, vramGuessed, slots, contextLength } = order;
    const body = {
      worker_id: id,
      model_ref: modelRef,
      gpu_id: device,
      timeout_ms: this.#options.startTimeoutMs,
      // A guessed size is not sent: the pool manager estimates better, from the model file itself.
      ...(!vramGuessed && { vram_bytes: vramBytes }),
      ...(slots !== undefined && { slots }),
      ...(contextLength !== undefined && { context_length: contextLength }),
    };
    return this.clientOf(pool).startWorker(body, who);
  }

  async drainWorker(pool: string, worker: string, who: Commander): Promise<void> {
    await this.clientOf(pool).drainWorker(worker, who);
  }

  async stopWorker(pool: string, worker: string, who: Commander): Promise<void> {
    await this.clientOf(pool).stopWorker(worker, who);
  }

  resolve(ref: string): Promise<ResolvedModel | undefined> {
    return resolveModel(this.#namedPools(), ref);
  }

  verify(
    model: VerifyModel,
    onProgress: (bytes: number, total: number) => void,
  ): Promise<VerifyResult & { readonly pool: string }> {
    return verifyModel(this.#namedPools(), model, onProgress);
  }

  #namedPools(): NamedPool[] {
    const named: NamedPool[] = [];
    for (const { id, client } of this.#pools.values()) if (id !== undefined) named.push({ id, client });
    return named;
  }

  #add({ url, secret, id, isConfigured, delayMs = 0 }: NewPool, target: Target): void {
    const { env, maxAgeMs, allowedWorkerHosts } = this.#options;
    const name = id ?? url;
    this.#listener?.awaited(name, true);
    const client = new PoolClient({
      env,
      url,
      secret,
      maxAgeMs,
      target,
      onState: (state) => this.#onState(url, state),
      onLost: (error) => this.#onLost(url, error),
      delayMs,
      // A configured pool may be started at any time: it is asked for ever.
      ...(!isConfigured && { giveUp: { afterMs: GIVE_UP_MS, run: () => this.#onGivenUp(url, client) } }),
    });
    const isAllowed = allowUris(url, allowedWorkerHosts);
    const completion = new StateCompletion(this.#outboundOf(isConfigured), isAllowed);
    this.#pools.set(url, { client, secret, isAllowed, completion, isConfigured, id });
    void client.start();
  }

  #drop(url: string): void {
    const pool = this.#pools.get(url);
    if (!pool) return;
    void pool.client.stop();
    this.#pools.delete(url);
    this.#clearName(url, pool);
  }

  /** Reports the pool as lost under its former name; no order reaches it by that name any more. */
  #clearName(url: string, pool: PoolEntry): void {
    this.#listener?.awaited(pool.id ?? url, false);
    if (pool.id !== undefined) this.#listener?.lost(pool.id);
    pool.id = undefined;
  }

  async #onState(url: string, reported: PoolState): Promise<void> {
    const pool = this.#pools.get(url);
    const state = await pool?.completion.complete(reported);
    if (!pool || !state || this.#pools.get(url) !== pool || !this.#listener) return;
    // Another manager is at this address now, or the same one under a new name: the state of the former name is void.
    if (pool.id !== state.pool_id) this.#clearName(url, pool);
    const holder = this.addressOf(state.pool_id);
    if (holder !== undefined && holder !== url) {
      this.#options.logger?.warn('two pool managers have the same name', { reason: state.pool_id });
      return;
    }
    pool.id = state.pool_id;
    this.#listener.awaited(state.pool_id, false);
    const report = reportOf(state, pool.isAllowed);
    for (const [at, worker] of report.workers.entries()) {
      const { uri, token } = state.workers[at] as WorkerState;
      if (worker.unusable !== undefined || uri === undefined || worker.registry === '') continue;
      this.#backends?.present(
        this.#backendAt(workerInfo(report, worker), uri, token, this.#outboundOf(pool.isConfigured)),
      );
    }
    this.#listener.reported(report);
  }

  /** Returns the same object while address, secret and registry stay the same: it may hold open streams. */
  #backendAt(info: BackendInfo, uri: string, secret: string | undefined, outbound: Outbound): Backend {
    const known = this.#workers.get(info.name);
    if (known?.uri === uri && known.secret === secret && known.backend.info.registry === info.registry) {
      return known.backend;
    }
    const { timers } = this.#options.env;
    const backend = new ExecutorBackend({
      info,
      protocol: WORKER_PROTOCOL,
      secret,
      timers,
      target: outbound.to(uri),
    });
    known?.backend.retire();
    this.#workers.set(info.name, { uri, secret, backend });
    return backend;
  }

  /** Stops polling a self-registered pool that is gone for good; it may register again. */
  forgetPool(id: string): void {
    for (const [url, pool] of this.#pools) if (pool.id === id && !pool.isConfigured) this.#drop(url);
  }

  /** Closes the connections to a worker that is gone. */
  forget(backend: string): void {
    void this.#workers.get(backend)?.backend.stop();
    this.#workers.delete(backend);
  }

  #onGivenUp(url: string, client: PoolClient): void {
    if (this.#pools.get(url)?.client !== client) return;
    this.#options.logger?.warn('a registered pool manager never answered, and is given up', {
      reason: 'POOL_UNAVAILABLE',
    });
    this.#drop(url);
  }

  #onLost(url: string, error: Error): void {
    const id = this.#pools.get(url)?.id;
    const problem = isRefusedReport(error) ? error.message : undefined;
    if (problem === undefined) {
      const reason = error instanceof OrchdError ? error.code : 'WORKER_PROTOCOL';
      this.#options.logger?.warn('a pool manager does not answer', { reason });
    } else {
      const fields = { ...(id !== undefined && { pool_id: id }), reason: `${url}: ${problem}` };
      this.#options.logger?.warn('what a pool manager reports is refused, and its pool is not used', fields);
    }
    if (id !== undefined) this.#listener?.lost(id, problem);
  }
}
