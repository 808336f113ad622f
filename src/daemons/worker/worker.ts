/**
 * The worker: a process that runs jobs on one model. It listens first, so that its health can be checked while it
 * starts; then it loads the model; then it reports to the pool manager that it is ready.
 */
import { isLoopbackHost } from '../../config/address.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Secret } from '../../kit/secret.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { WorkerHealth } from '../../model/worker-wire.ts';
import { LOOPBACK_HOSTS } from '../../wire/access-gate.ts';
import { Epochs } from '../../wire/epochs.ts';
import { HttpServer } from '../../wire/http-server.ts';
import type { Engine, EngineInfo } from '../execution/engine.ts';
import { Executions } from '../execution/executions.ts';
import type { Ledger } from '../execution/ledger.ts';
import { executionRoutes } from '../execution/routes.ts';
import { TokenMemory, type TokenMemoryLimits } from '../execution/token-memory.ts';
import { reportReady } from './ready-report.ts';

export interface WorkerOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly engine: Engine;
  readonly id: string;
  readonly modelRef: string;
  /** The LoRA file that its engine applies, and the variant of its model; shown in its health. */
  readonly adapter?: string | undefined;
  readonly variant?: string | undefined;
  readonly host: string;
  readonly port: number;
  /** The URL for callers, in which `{port}` is filled in; made of host and port by default. */
  readonly uri?: string | undefined;
  /** The token that callers must send. Without it only callers on this machine are accepted. */
  readonly token?: Secret | undefined;
  /** The URL of the pool manager; undefined: no ready report is sent. */
  readonly poolManager?: string | undefined;
  readonly ledger?: Ledger | undefined;
  /** How long running executions may go on after the order to stop. */
  readonly graceMs?: number | undefined;
  /** Whether executions cost money; reported to the brain, which then holds one with an unknown outcome. */
  readonly paid?: boolean;
  /** How long the worker waits after that for its results to be acknowledged. */
  readonly collectMs?: number | undefined;
  readonly maxLogBytes?: number | undefined;
  readonly memory?: Partial<TokenMemoryLimits> | undefined;
}

const GRACE_MS = 30_000;
const COLLECT_MS = 5000;
const MAX_LOG_BYTES = 4 * 2 ** 20;
const MAX_BODY_BYTES = 33 * 2 ** 20;
const MAX_CONNECTIONS = 1024;
const MEMORY_SWEEP_MS = 60_000;

type ModelPhase =
  | { readonly is: 'loading' }
  | { readonly is: 'loaded'; readonly info: EngineInfo }
  /** `info` where the model was loaded before it failed. */
  | { readonly is: 'failed'; readonly info?: EngineInfo };

/** The host as it is written in a URL: an IPv6 address gets brackets. */
const urlHost = (host: string): string => (host.includes(':') ? `[${host}]` : host);

export class Worker extends Service {
  readonly #options: WorkerOptions;
  readonly #memory: TokenMemory;
  readonly #executions: Executions;
  readonly #http: HttpServer;
  /** By the monotonic clock. */
  readonly #startedAt: number;
  readonly #drained = Promise.withResolvers<void>();
  readonly #loaded = Promise.withResolvers<EngineInfo>();
  readonly #failure = Promise.withResolvers<unknown>();
  #model: ModelPhase = { is: 'loading' };
  #url = '';
  #stopSweep: Cancel | undefined;
  #draining: Promise<void> | undefined;

  constructor(options: WorkerOptions) {
    super();
    const { env, logger, engine, modelRef, host, token } = options;
    if (!token && !isLoopbackHost(host)) {
      throw new OrchdError(
        'CONFIG_INVALID',
        `${host} can be reached from other machines, so callers need a secret: set ORCHD_WORKER_TOKEN`,
      );
    }
    if (options.uri === undefined && (host === '0.0.0.0' || host === '::')) {
      throw new OrchdError(
        'CONFIG_INVALID',
        `other machines cannot call ${host}: set --uri to an address that they can call`,
      );
    }
    this.#options = options;
    this.#startedAt = env.clock.monotonic();
    this.#memory = new TokenMemory(env.random.hex(8), env.clock, { limits: options.memory });
    this.#executions = new Executions({
      env,
      logger,
      engine,
      memory: this.#memory,
      modelRef: () => modelRef,
      maxLogBytes: options.maxLogBytes ?? MAX_LOG_BYTES,
      ledger: options.ledger ?? (() => undefined),
    });
    this.#http = this.#server();
    // A rejection that nobody awaits must not end the process: `failure` reports it too.
    this.#loaded.promise.catch(() => undefined);
  }

  /** The URL for callers; valid once the worker has started. */
  get url(): string {
    return this.#url;
  }

  /** Settles when the model is loaded; rejects when it cannot be. */
  get loaded(): Promise<EngineInfo> {
    return this.#loaded.promise;
  }

  /** Settles with the error when the model cannot be loaded, or the engine has ended. */
  get failure(): Promise<unknown> {
    return this.#failure.promise;
  }

  /** Settles when the worker was ordered to stop, or cannot reach its pool manager, and has drained. */
  get drained(): Promise<void> {
    return this.#drained.promise;
  }

  get registry(): string {
    return this.#memory.registry;
  }

  /** Accepts no new work and lets running executions end within `graceMs`; then `drained` settles. */
  drain(graceMs?: number): Promise<void> {
    const { logger, graceMs: defaultMs = GRACE_MS, collectMs = COLLECT_MS } = this.#options;
    if (!this.#draining) {
      logger.info('the worker drains');
      this.#draining = this.#executions
        .drain({ graceMs: graceMs ?? defaultMs, collectMs })
        .then(() => this.#drained.resolve());
    }
    return this.#draining;
  }

  protected override async onStart(): Promise<void> {
    await this.#http.start();
    const { host } = this.#options;
    const { port } = this.#http;
    const url = this.#options.uri ?? `http://${urlHost(host)}:{port}`;
    this.#url = url.replaceAll('{port}', String(port));
    this.#stopSweep = every(this.#options.env.timers, MEMORY_SWEEP_MS, () => this.#memory.makeRoom());
    void this.#load();
  }

  protected override async onStop(): Promise<void> {
    this.#stopSweep?.();
    await this.#executions.drain({ graceMs: 0, collectMs: 0 });
    await this.#http.stop();
    await this.#options.engine.stop();
    this.#drained.resolve();
  }

  async #load(): Promise<void> {
    const { engine, logger, env } = this.#options;
    let info: EngineInfo;
    try {
      info = await engine.load(this.stopSignal);
    } catch (error) {
      this.#loaded.reject(error);
      this.#fail(error);
      return;
    }
    this.#model = { is: 'loaded', info };
    void engine.ended?.then((error) => this.#fail(error));
    this.#executions.open(info);
    logger.info('the model is loaded', {
      duration_ms: Math.round(env.clock.monotonic() - this.#startedAt),
      ...(info.vramBytes !== undefined && { bytes: info.vramBytes }),
      count: info.slots,
    });
    this.#loaded.resolve(info);
    await this.#reportReady(info);
  }

  /** Gives the brain `collectMs` to collect results before `failure` settles and the process exits. */
  #fail(error: unknown): void {
    this.#model = { ...this.#model, is: 'failed' };
    const { collectMs = COLLECT_MS } = this.#options;
    void this.#executions.drain({ graceMs: 0, collectMs }).then(() => this.#failure.resolve(error));
  }

  async #reportReady({ vramBytes, slots, contextLength, features }: EngineInfo): Promise<void> {
    const { env, logger, poolManager, token, id, modelRef, paid } = this.#options;
    if (poolManager === undefined) return;
    const body = {
      worker_id: id,
      model_ref: modelRef,
      uri: this.#url,
      ...(vramBytes !== undefined && { vram_bytes: vramBytes }),
      slots,
      context_length: contextLength,
      registry: this.registry,
      ...(paid && { paid }),
      features: [...features],
    };
    try {
      await reportReady({ env, logger, url: poolManager, token, body, signal: this.stopSignal });
      logger.info('the worker is ready');
    } catch {
      logger.error('the pool manager cannot be reached; the worker stops');
      await this.drain(0);
    }
  }

  #server(): HttpServer {
    const { env, logger, host, port, token, uri } = this.#options;
    const uriHosts = uri === undefined ? [] : [new URL(uri.replaceAll('{port}', '1')).hostname];
    return new HttpServer({
      host,
      port,
      random: env.random,
      timers: env.timers,
      logger,
      limits: { maxBodyBytes: MAX_BODY_BYTES, maxConnections: MAX_CONNECTIONS },
      gate: {
        allowedHosts: [...LOOPBACK_HOSTS, urlHost(host), ...uriHosts],
        allowedOrigins: [],
        tokens: () => [],
        openWithoutTokens: token === undefined,
        ...(token && { adminSecret: token }),
      },
      routes: executionRoutes({
        executions: this.#executions,
        memory: this.#memory,
        epochs: new Epochs(),
        timers: env.timers,
        health: () => this.#health(),
        // Deferred so that the response is sent first: an idle worker ends at once.
        shutdown: (graceMs) => env.timers.soon(() => void this.drain(graceMs)),
      }),
    });
  }

  #health(): WorkerHealth {
    const { env, id, modelRef, adapter, variant } = this.#options;
    const info = this.#model.is === 'loading' ? undefined : this.#model.info;
    return {
      status: this.#status(),
      worker_id: id,
      model: modelRef,
      ...(adapter !== undefined && { adapter }),
      ...(variant !== undefined && { variant }),
      vram_bytes: info?.vramBytes ?? 0,
      uptime_seconds: Math.round(env.clock.monotonic() - this.#startedAt) / 1000,
      slots: info?.slots ?? 0,
      active: this.#memory.running,
      context_length: info?.contextLength ?? 0,
      registry: this.registry,
    };
  }

  #status(): WorkerHealth['status'] {
    if (this.#model.is === 'failed') return 'failed';
    if (this.#executions.draining) return 'draining';
    if (this.#model.is === 'loading') return 'starting';
    return this.#memory.running > 0 ? 'busy' : 'ready';
  }
}
