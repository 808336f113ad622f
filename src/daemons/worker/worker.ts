/**
 * A process with one model loaded. It listens first, so that whoever started it can see it start; then it loads
 * the model; then it tells the pool manager.
 */
import { isLoopbackHost } from '../../config/address.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Secret } from '../../kit/secret.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { WorkerHealth } from '../../model/worker-wire.ts';
import { Epochs } from '../../wire/epochs.ts';
import { LOOPBACK_HOSTS } from '../../wire/gate.ts';
import { HttpServer } from '../../wire/http-server.ts';
import type { Engine, EngineInfo } from './engine.ts';
import { Executions } from './executions.ts';
import type { Ledger } from './ledger.ts';
import { Memory, type MemoryLimits } from './memory.ts';
import { sayReady } from './ready.ts';
import { workerRoutes } from './routes.ts';

export interface WorkerOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly engine: Engine;
  readonly id: string;
  readonly modelRef: string;
  readonly host: string;
  readonly port: number;
  /** Where others reach it, from host and port where it is not given; `{port}` is filled in. */
  readonly uri?: string | undefined;
  /** What callers show. Without it only this machine may call. */
  readonly token?: Secret | undefined;
  readonly poolManager?: string | undefined;
  readonly ledger?: Ledger | undefined;
  /** How long what runs may go on after the worker was told to stop. */
  readonly graceMs?: number | undefined;
  readonly collectMs?: number | undefined;
  readonly maxLogBytes?: number | undefined;
  readonly memory?: Partial<MemoryLimits> | undefined;
}

const GRACE_MS = 30_000;
const COLLECT_MS = 5000;
const MAX_LOG_BYTES = 4 * 2 ** 20;
const MAX_BODY_BYTES = 33 * 2 ** 20;
const MAX_CONNECTIONS = 1024;
const MAKE_ROOM_MS = 60_000;

type ModelPhase =
  | { readonly is: 'loading' }
  | { readonly is: 'loaded'; readonly info: EngineInfo }
  /** `info` where it was loaded before. */
  | { readonly is: 'failed'; readonly info?: EngineInfo };

/** An IPv6 address stands in brackets. */
const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host);

export class Worker extends Service {
  readonly #options: WorkerOptions;
  readonly #memory: Memory;
  readonly #executions: Executions;
  readonly #http: HttpServer;
  readonly #begun: number;
  readonly #over = Promise.withResolvers<void>();
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
        `${host} is no address that others can call: say with --uri which is`,
      );
    }
    this.#options = options;
    this.#begun = env.clock.monotonic();
    this.#memory = new Memory(env.random.hex(8), env.clock, options.memory);
    this.#executions = new Executions({
      env,
      logger,
      engine,
      memory: this.#memory,
      modelRef,
      maxLogBytes: options.maxLogBytes ?? MAX_LOG_BYTES,
      ledger: options.ledger ?? (() => undefined),
    });
    this.#http = this.#server();
    // Whoever waits hears of it; nobody has to.
    this.#loaded.promise.catch(() => undefined);
  }

  /** Where it is reached, once it has started. */
  get url(): string {
    return this.#url;
  }

  /** Settles when the model is loaded, or cannot be. */
  get loaded(): Promise<EngineInfo> {
    return this.#loaded.promise;
  }

  /** Settles with the error when the model cannot be loaded, or is gone. */
  get failure(): Promise<unknown> {
    return this.#failure.promise;
  }

  /** Settles when it was told to stop, or nobody wants it, and has drained. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  get registry(): string {
    return this.#memory.registry;
  }

  /** Takes nothing new, finishes what runs within the time, and is over. */
  drain(graceMs?: number): Promise<void> {
    const { logger, graceMs: usual = GRACE_MS, collectMs = COLLECT_MS } = this.#options;
    if (!this.#draining) {
      logger.info('the worker drains');
      this.#draining = this.#executions
        .drain({ graceMs: graceMs ?? usual, collectMs })
        .then(() => this.#over.resolve());
    }
    return this.#draining;
  }

  protected override async onStart(): Promise<void> {
    await this.#http.start();
    const { host } = this.#options;
    const { port } = this.#http;
    const url = this.#options.uri ?? `http://${inUrl(host)}:{port}`;
    this.#url = url.replaceAll('{port}', String(port));
    this.#stopSweep = every(this.#options.env.timers, MAKE_ROOM_MS, () => this.#memory.makeRoom());
    void this.#load();
  }

  protected override async onStop(): Promise<void> {
    this.#stopSweep?.();
    await this.#executions.drain({ graceMs: 0, collectMs: 0 });
    await this.#http.stop();
    await this.#options.engine.stop();
    this.#over.resolve();
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
    void engine.gone?.then((error) => this.#fail(error));
    this.#executions.open(info);
    logger.info('the model is loaded', {
      duration_ms: Math.round(env.clock.monotonic() - this.#begun),
      bytes: info.vramBytes,
      count: info.slots,
    });
    this.#loaded.resolve(info);
    await this.#tell(info);
  }

  /** What has ended may still be collected before the process goes. */
  #fail(error: unknown): void {
    this.#model = { ...this.#model, is: 'failed' };
    const { collectMs = COLLECT_MS } = this.#options;
    void this.#executions.drain({ graceMs: 0, collectMs }).then(() => this.#failure.resolve(error));
  }

  async #tell({ vramBytes, slots, contextLength, features }: EngineInfo): Promise<void> {
    const { env, logger, poolManager, token, id, modelRef } = this.#options;
    if (poolManager === undefined) return;
    const body = {
      worker_id: id,
      model_ref: modelRef,
      uri: this.#url,
      vram_bytes: vramBytes,
      slots,
      context_length: contextLength,
      registry: this.registry,
      features: [...features],
    };
    try {
      await sayReady({ env, logger, url: poolManager, token, body, signal: this.stopSignal });
      logger.info('the pool manager knows that this worker is ready');
    } catch {
      logger.error('the pool manager cannot be reached; the worker stops');
      await this.drain(0);
    }
  }

  #server(): HttpServer {
    const { env, logger, host, port, token, uri } = this.#options;
    const reached = uri === undefined ? [] : [new URL(uri.replaceAll('{port}', '1')).hostname];
    return new HttpServer({
      host,
      port,
      random: env.random,
      logger,
      limits: { maxBodyBytes: MAX_BODY_BYTES, maxConnections: MAX_CONNECTIONS },
      gate: {
        hosts: [...LOOPBACK_HOSTS, inUrl(host), ...reached],
        origins: [],
        tokens: () => [],
        openWithoutTokens: token === undefined,
        ...(token && { secret: token }),
      },
      routes: workerRoutes({
        executions: this.#executions,
        memory: this.#memory,
        epochs: new Epochs(),
        timers: env.timers,
        health: () => this.#health(),
        // After the answer is on its way: where nothing runs the end comes at once.
        shutdown: (graceMs) => env.timers.soon(() => void this.drain(graceMs)),
      }),
    });
  }

  #health(): WorkerHealth {
    const { env, id, modelRef } = this.#options;
    const info = this.#model.is === 'loading' ? undefined : this.#model.info;
    return {
      status: this.#status(),
      worker_id: id,
      model: modelRef,
      vram_bytes: info?.vramBytes ?? 0,
      uptime_seconds: Math.round(env.clock.monotonic() - this.#begun) / 1000,
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
