/**
 * The gateway: a process in front of scarce LLM accounts (seats). It runs a request at once or refuses it, remembers over
 * its own death what it has begun, and never calls a provider twice for one token. A brain that starts finds it by the
 * file with its address.
 */
import { join } from 'node:path';
import { isLoopbackHost } from '../../config/address.ts';
import type { Cancel } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { identityOf } from '../../kit/process/identity.ts';
import { writeRecord } from '../../kit/record-file.ts';
import type { Secret } from '../../kit/secret.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { GatewayHealth, SeatsOrder } from '../../model/gateway-wire.ts';
import { LOOPBACK_HOSTS } from '../../wire/access-gate.ts';
import { HttpServer } from '../../wire/http-server.ts';
import { ADDRESS_FILE, type ExecutorAddress } from '../upstream/layout.ts';
import { GatewayCore, type GatewayCoreOptions } from './core.ts';
import { GATEWAY_TOKEN_VARIABLE } from './layout.ts';
import { gatewayRoutes } from './routes.ts';

export interface GatewayOptions extends GatewayCoreOptions {
  readonly host: string;
  readonly port: number;
  /** The token that callers must send. Without it only callers on this machine are accepted. */
  readonly token?: Secret | undefined;
  /** Host names under which callers reach it, beside those of this machine and the one on which it listens. */
  readonly allowedHosts?: readonly string[];
  /**
   * Repeated in the address file, so that the brain knows it as that of the process which it has started. Without it the
   * gateway stands alone: it writes no address, and does not end by itself.
   */
  readonly launch?: string | undefined;
}

const MAX_BODY_BYTES = 33 * 2 ** 20;
const MAX_CONNECTIONS = 4096;
const SWEEP_MS = 15_000;
/** Without a brain for this long it ends, if nothing runs or waits: first without, then with uncollected results. */
const ORPHAN_MS = 10 * 60_000;
const ORPHAN_WITH_RESULTS_MS = 24 * 3_600_000;
/** How long running requests may go on after a signal to stop; after that the next process goes on with them. */
const GRACE_MS = 30_000;

/** The host as it is written in a URL: an IPv6 address gets brackets. */
const urlHost = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/** The host by which a brain on this machine reaches a gateway that listens on all addresses. */
const localHost = (host: string): string => ({ '0.0.0.0': '127.0.0.1', '::': '::1' })[host] ?? host;

export class Gateway extends Service {
  readonly #options: GatewayOptions;
  readonly #ended = Promise.withResolvers<void>();
  readonly #failed = Promise.withResolvers<OrchdError>();
  /** By the monotonic clock. */
  readonly #startedAt: number;
  #calledAt: number;
  #core: GatewayCore | undefined;
  #http: HttpServer | undefined;
  #url = '';
  #stopSweep: Cancel | undefined;
  #draining: Promise<void> | undefined;

  constructor(options: GatewayOptions) {
    super();
    const { host, token, env } = options;
    if (!token && !isLoopbackHost(host)) {
      throw new OrchdError(
        'CONFIG_INVALID',
        `${host} can be reached from other machines, so callers need a secret: set ${GATEWAY_TOKEN_VARIABLE}`,
      );
    }
    this.#options = options;
    this.#startedAt = env.clock.monotonic();
    this.#calledAt = this.#startedAt;
  }

  /** The URL for callers; valid once the gateway has started. */
  get url(): string {
    return this.#url;
  }

  /** Settles when the process can end: it was told to, or has had no brain for long. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Settles when the disk has failed: the process must end at once, and the next one reads what is durable. */
  get failed(): Promise<OrchdError> {
    return this.#failed.promise;
  }

  /** Uses these seats from now on. Throws CONFIG_INVALID where a driver cannot be made. */
  follow(order: SeatsOrder): void {
    this.#opened.follow(order);
    this.#options.logger.info('the gateway has its seats', { count: order.seats.length });
  }

  /** Accepts no new work and lets running requests end; then `ended` settles. */
  drain(graceMs = GRACE_MS): Promise<void> {
    this.#draining ??= this.#opened.executions
      .drain({ graceMs, collectMs: 0 })
      .then(() => this.#ended.resolve());
    return this.#draining;
  }

  protected override async onStart(): Promise<void> {
    const { env, folder, launch, host } = this.#options;
    this.#core = await GatewayCore.open(this.#options);
    void this.#core.kept.failed.then((error) => this.#failed.resolve(error));
    const http = this.#server(this.#core);
    this.#http = http;
    await http.start();
    this.#url = `http://${urlHost(host)}:${http.port}`;
    this.#stopSweep = every(env.timers, SWEEP_MS, () => void this.#sweep(this.#opened));
    if (launch === undefined) return;
    const uri = `http://${urlHost(localHost(host))}:${http.port}`;
    const address: ExecutorAddress = { launch, uri, process: identityOf(process.pid) };
    await writeRecord(env, join(folder, ADDRESS_FILE), address);
  }

  protected override async onStop(): Promise<void> {
    this.#stopSweep?.();
    if (!this.#core) return;
    await this.#core.executions.drain({ graceMs: 0, collectMs: 0 });
    await this.#http?.stop();
    await this.#core.close();
    this.#ended.resolve();
  }

  get #opened(): GatewayCore {
    if (!this.#core) throw new OrchdError('ILLEGAL_STATE', 'the gateway has not started');
    return this.#core;
  }

  async #sweep(core: GatewayCore): Promise<void> {
    core.sweep();
    const { env, folder, launch, logger } = this.#options;
    if (launch === undefined || core.kept.memory.running > 0 || core.queue.isWorking) return;
    const silentMs = env.clock.monotonic() - this.#calledAt;
    // Without the file with its address no brain could find it.
    const isLost = silentMs > SWEEP_MS && !(await env.disk.stat(join(folder, ADDRESS_FILE)));
    const hasResults = core.kept.memory.unacknowledged > 0 || core.queue.hasResults;
    const patienceMs = hasResults ? ORPHAN_WITH_RESULTS_MS : ORPHAN_MS;
    if (silentMs < patienceMs && !isLost) return;
    logger.info('no brain has called for long; the gateway ends');
    this.#ended.resolve();
  }

  #server(core: GatewayCore): HttpServer {
    const { env, logger, host, port, token, allowedHosts = [] } = this.#options;
    return new HttpServer({
      host,
      port,
      random: env.random,
      timers: env.timers,
      logger,
      limits: { maxBodyBytes: MAX_BODY_BYTES, maxConnections: MAX_CONNECTIONS },
      gate: {
        allowedHosts: [...LOOPBACK_HOSTS, urlHost(host), ...allowedHosts],
        allowedOrigins: [],
        tokens: () => [],
        openWithoutTokens: token === undefined,
        ...(token && { adminSecret: token }),
      },
      routes: gatewayRoutes({
        requests: core.requests,
        queue: core.queue,
        feed: core.feed,
        timers: env.timers,
        state: () => core.state(),
        health: () => this.#health(core),
        follow: (order) => {
          if (!token) refuseBrowsers(order);
          this.follow(order);
        },
        called: () => {
          this.#calledAt = env.clock.monotonic();
        },
        // Deferred so that the response is sent first.
        shutdown: (graceMs) => env.timers.soon(() => void this.drain(graceMs)),
      }),
    });
  }

  #health({ kept, seats, executions }: GatewayCore): GatewayHealth {
    const { clock } = this.#options.env;
    return {
      status: executions.draining ? 'draining' : seats.order ? 'ready' : 'starting',
      registry: kept.memory.registry,
      seats: seats.all.length,
      running: kept.memory.running,
      uptime_seconds: Math.round(clock.monotonic() - this.#startedAt) / 1000,
    };
  }
}

/** Such a seat names a program to run, which no user of the machine may choose for the user of the gateway. */
function refuseBrowsers({ seats }: SeatsOrder): void {
  if (!seats.some(({ page }) => page)) return;
  throw new OrchdError(
    'FORBIDDEN',
    `seats of the driver "browser" are taken from callers only with a token: set ${GATEWAY_TOKEN_VARIABLE}`,
  );
}
