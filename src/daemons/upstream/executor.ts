/**
 * The executor of one upstream: a process beside the brain that makes the calls for all models of the upstream, and
 * follows which ones it has. It keeps what a worker keeps (tokens, events, results), so that calls survive the brain. A
 * brain that starts finds it by the file with its address.
 */
import { join } from 'node:path';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Logger } from '../../kit/logger.ts';
import { identityOf } from '../../kit/process/identity.ts';
import { writeRecord } from '../../kit/record-file.ts';
import type { Secret } from '../../kit/secret.ts';
import { Service } from '../../kit/service.ts';
import type { UpstreamOrder, UpstreamState } from '../../model/upstream-wire.ts';
import type { WorkerHealth } from '../../model/worker-wire.ts';
import { LOOPBACK_HOSTS } from '../../wire/access-gate.ts';
import { Epochs } from '../../wire/epochs.ts';
import { HttpServer } from '../../wire/http-server.ts';
import { Executions } from '../execution/executions.ts';
import type { Ledger } from '../execution/ledger.ts';
import { executionRoutes } from '../execution/routes.ts';
import { StateFeed } from '../execution/state-feed.ts';
import { TokenMemory } from '../execution/token-memory.ts';
import { UpstreamEngine } from './engine.ts';
import { ADDRESS_FILE, type ExecutorAddress } from './layout.ts';
import { upstreamRoutes } from './routes.ts';
import { UpstreamWatch } from './watch.ts';

export interface ExecutorOptions {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder in which it leaves its address. */
  readonly folder: string;
  /** Repeated in the address, so that the brain knows it as that of the process which it has started. */
  readonly launch: string;
  /** The token that callers must send. */
  readonly token: Secret;
  readonly ledger?: Ledger | undefined;
}

const MAX_LOG_BYTES = 4 * 2 ** 20;
const MAX_BODY_BYTES = 33 * 2 ** 20;
const MAX_CONNECTIONS = 4096;
const SWEEP_MS = 15_000;
/** Without a brain for this long it ends, if nothing runs: first without, then with results that nobody has collected. */
const ORPHAN_MS = 10 * 60_000;
const ORPHAN_WITH_RESULTS_MS = 24 * 3_600_000;
/** How long running calls may go on after a signal to stop; after that their outcome is unknown. */
const GRACE_MS = 30_000;
const COLLECT_MS = 5000;

export class UpstreamExecutor extends Service {
  readonly #options: ExecutorOptions;
  readonly #memory: TokenMemory;
  readonly #executions: Executions;
  readonly #watch: UpstreamWatch;
  readonly #engine: UpstreamEngine;
  readonly #feed: StateFeed;
  readonly #http: HttpServer;
  readonly #ended = Promise.withResolvers<void>();
  /** By the monotonic clock. */
  readonly #startedAt: number;
  #calledAt: number;
  #stopSweep: Cancel | undefined;
  #draining: Promise<void> | undefined;

  constructor(options: ExecutorOptions) {
    super();
    const { env, logger } = options;
    this.#options = options;
    this.#startedAt = env.clock.monotonic();
    this.#calledAt = this.#startedAt;
    this.#memory = new TokenMemory(env.random.hex(8), env.clock);
    this.#feed = new StateFeed(env.timers, () => undefined);
    this.#feed.startAt(1);
    this.#watch = new UpstreamWatch({ env, onChange: () => this.#changed(), maxStreams: MAX_CONNECTIONS });
    this.#engine = new UpstreamEngine(this.#watch);
    this.#executions = new Executions({
      env,
      logger,
      engine: this.#engine,
      memory: this.#memory,
      modelRef: ({ body }) => body.model ?? '',
      maxLogBytes: MAX_LOG_BYTES,
      ledger: options.ledger ?? (() => undefined),
    });
    this.#executions.close('the upstream has not answered yet');
    this.#http = this.#server();
  }

  /** Settles when the process can end: it was told to, or has had no brain for long. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Accepts no new work and lets running calls end; then `ended` settles. */
  drain(graceMs = GRACE_MS): Promise<void> {
    this.#draining ??= this.#executions
      .drain({ graceMs, collectMs: COLLECT_MS })
      .then(() => this.#ended.resolve());
    return this.#draining;
  }

  protected override async onStart(): Promise<void> {
    const { env, folder, launch } = this.#options;
    await this.#http.start();
    this.#stopSweep = every(env.timers, SWEEP_MS, () => void this.#sweep());
    const address: ExecutorAddress = {
      launch,
      uri: `http://127.0.0.1:${this.#http.port}`,
      process: identityOf(process.pid),
    };
    await writeRecord(env, join(folder, ADDRESS_FILE), address);
  }

  protected override async onStop(): Promise<void> {
    this.#stopSweep?.();
    this.#feed.close();
    await this.#executions.drain({ graceMs: 0, collectMs: 0 });
    await this.#http.stop();
    await this.#engine.stop();
    this.#ended.resolve();
  }

  #follow(order: UpstreamOrder): void {
    this.#watch.follow(order);
  }

  #changed(): void {
    const { status, slots, problem } = this.#watch.state;
    if (status === 'up') this.#executions.open({ slots });
    else this.#executions.close(problem?.message ?? 'the upstream has not answered yet');
    this.#feed.changed();
  }

  #state(): UpstreamState {
    const { registry, running, unacknowledged } = this.#memory;
    return { version: this.#feed.version, registry, ...this.#watch.state, running, unacknowledged };
  }

  async #sweep(): Promise<void> {
    this.#memory.makeRoom();
    const { env, folder } = this.#options;
    const { running, unacknowledged } = this.#memory;
    const silentMs = env.clock.monotonic() - this.#calledAt;
    // Without the file with its address no brain could find it.
    const isLost = silentMs > SWEEP_MS && !(await env.disk.stat(join(folder, ADDRESS_FILE)));
    const patienceMs = unacknowledged > 0 ? ORPHAN_WITH_RESULTS_MS : ORPHAN_MS;
    if (running > 0 || (silentMs < patienceMs && !isLost)) return;
    this.#options.logger.info('no brain has called for long; the executor ends');
    this.#ended.resolve();
  }

  #server(): HttpServer {
    const { env, logger, token } = this.#options;
    return new HttpServer({
      host: '127.0.0.1',
      port: 0,
      random: env.random,
      timers: env.timers,
      logger,
      limits: { maxBodyBytes: MAX_BODY_BYTES, maxConnections: MAX_CONNECTIONS },
      gate: {
        allowedHosts: [...LOOPBACK_HOSTS],
        allowedOrigins: [],
        tokens: () => [],
        openWithoutTokens: false,
        adminSecret: token,
      },
      routes: [
        ...executionRoutes({
          executions: this.#executions,
          memory: this.#memory,
          epochs: new Epochs(),
          timers: env.timers,
          health: () => this.#health(),
          contentParts: 'any',
          // Deferred so that the response is sent first.
          shutdown: (graceMs) => env.timers.soon(() => void this.drain(graceMs)),
        }),
        ...upstreamRoutes({
          feed: this.#feed,
          state: () => this.#state(),
          follow: (order) => this.#follow(order),
          called: () => {
            this.#calledAt = env.clock.monotonic();
          },
        }),
      ],
    });
  }

  #health(): WorkerHealth {
    const { clock } = this.#options.env;
    const { slots, status } = this.#watch.state;
    return {
      status: this.#executions.draining ? 'draining' : status === 'up' ? 'ready' : 'starting',
      worker_id: 'upstream',
      model: '',
      vram_bytes: 0,
      uptime_seconds: Math.round(clock.monotonic() - this.#startedAt) / 1000,
      slots,
      active: this.#memory.running,
      context_length: 0,
      registry: this.#memory.registry,
    };
  }
}
