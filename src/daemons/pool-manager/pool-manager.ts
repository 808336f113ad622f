/**
 * The pool manager: starts, drains and stops workers by order of a brain, and reports devices and workers. It decides
 * nothing: it never chooses, restarts or evicts a worker by itself.
 */

import type { Env } from '../../kit/env/env.ts';
import { diskErrorCode } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Logger } from '../../kit/logger.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { PoolState } from '../../model/pool-wire.ts';
import { HttpServer } from '../../wire/http-server.ts';
import { Outbound } from '../../wire/outbound.ts';
import type { Route } from '../../wire/route.ts';
import { type TokenEntry, tokenEntryOf } from '../../wire/tokens.ts';
import { StateFeed } from '../execution/state-feed.ts';
import { checkedPoolConfig, type PoolConfig } from './config.ts';
import { Devices } from './devices.ts';
import { EpochFile } from './epoch-file.ts';
import { Hub } from './hub.ts';
import { Launches } from './launches.ts';
import { ModelFiles } from './model-files.ts';
import { PoolFolder, readOrMakeToken } from './pool-folder.ts';
import { workerEnvironment } from './processes.ts';
import { Registration } from './registration.ts';
import { poolRoutes } from './routes.ts';
import { allowsUri, isWildcardHost, type PoolManagerSettings, settingsOf, urlHost } from './settings.ts';
import { Workers } from './workers.ts';

export interface PoolOptions {
  readonly config: PoolConfig;
  readonly logger: Logger;
  readonly env?: Env;
  /** The token that the brain must send, in the form that `orchd token create` makes. */
  readonly token?: string | undefined;
  /** The token that this manager sends to the brain. */
  readonly brainToken?: string | undefined;
  /** Whether an orderly stop ends the workers; by default they go on, for the next manager. */
  readonly endWorkers?: boolean;
  /** The folder is a copy: its workers belong to the manager of the original. */
  readonly isCopy?: boolean;
}

const MAX_BODY_BYTES = 256 * 1024;

export class PoolManager extends Service {
  readonly #options: PoolOptions;
  readonly #settings: PoolManagerSettings;
  readonly #env: Env;
  readonly #outbound: Outbound;
  readonly #feed: StateFeed;
  readonly #devices: Devices;
  readonly #registration: Registration;
  #folder: PoolFolder | undefined;
  #workers: Workers | undefined;
  #http: HttpServer | undefined;
  #token: string | undefined;

  constructor(options: PoolOptions) {
    super();
    this.#options = options;
    this.#settings = settingsOf(checkedPoolConfig(options.config), process.env);
    this.#env = options.env ?? realEnv();
    this.#outbound = new Outbound({ timers: this.#env.timers });
    this.#feed = new StateFeed(this.#env.timers, (version) => this.#folder?.reserve(version));
    this.#devices = new Devices({
      env: this.#env,
      cpuMemory: options.config.cpu_memory,
      pollMs: this.#settings.pollMs,
      onProbed: () => this.#workers?.measure(),
      onChange: () => this.#feed.changed(),
    });
    this.#registration = this.#registrationOf(options);
  }

  /** The URL for the brain; valid once the manager has started. */
  get url(): string {
    return `http://${urlHost(this.#settings.advertisedHost)}:${this.#port()}`;
  }

  /** The token that callers must send; undefined where every caller on this machine is accepted. */
  get token(): string | undefined {
    return this.#token;
  }

  get settings(): PoolManagerSettings {
    return this.#settings;
  }

  /** The number of workers that have a process. */
  get workerCount(): number {
    return this.#workers?.count ?? 0;
  }

  state(): PoolState {
    const { region, labels } = this.#options.config;
    return {
      pool_id: this.#settings.poolId,
      registry: this.#folder?.registryId ?? '',
      version: this.#feed.version,
      ...(region !== undefined && { region }),
      ...(labels !== undefined && { labels }),
      gpus: this.#workers?.devices() ?? [],
      // The workers' tokens are included: the route for the state needs the role that may command the workers.
      workers: this.#workers?.views(true) ?? [],
    };
  }

  protected async onStart(): Promise<void> {
    const { logger } = this.#options;
    const folder = await PoolFolder.open(this.#env, this.#settings.data, this.#options.isCopy ?? false);
    this.#folder = folder;
    this.#feed.startAt(folder.firstVersion);
    const tokens = await this.#tokens(folder);
    await this.#devices.start();
    const { problem } = this.#devices;
    if (problem !== undefined) logger.warn('the devices cannot be read', { reason: problem });
    const epochs = await EpochFile.open(this.#env, folder.layout);
    const models = this.#models(folder.registryId);
    const launches = this.#launches(models);
    const workers = this.#workersOf(folder, launches);
    this.#workers = workers;
    // The workers are taken over before the server listens, so that the first state sent is complete.
    await workers.start();
    const routes = poolRoutes({
      ...{ env: this.#env, workers, epochs, models, launches, feed: this.#feed },
      brainLeft: () => this.#registration.hurry(),
      state: () => this.state(),
    });
    await this.#listen(folder, routes, tokens);
    await this.#registration.start();
  }

  protected async onStop(): Promise<void> {
    await this.#registration.stop();
    this.#feed.close();
    await this.#http?.stop();
    await this.#workers?.stop();
    await this.#devices.stop();
    this.#outbound.close();
    await this.#folder?.close();
  }

  /** The accepted token. A manager that other machines can reach is never open: it makes a token where it has none. */
  async #tokens(folder: PoolFolder): Promise<TokenEntry[]> {
    const { token_file } = this.#options.config;
    const kept = token_file ?? (this.#settings.isLocal ? undefined : folder.layout.token);
    this.#token =
      this.#options.token ?? (kept === undefined ? undefined : await readOrMakeToken(this.#env, kept));
    if (this.#token === undefined) return [];
    const entry = tokenEntryOf(this.#token, 'brain', 'operate');
    if (entry) return [entry];
    throw new OrchdError(
      'CONFIG_INVALID',
      'the token of the pool has not the form of one: `orchd token create` makes one',
    );
  }

  #models(registry: string): ModelFiles {
    const { env, outbound, logger } = {
      env: this.#env,
      outbound: this.#outbound,
      logger: this.#options.logger,
    };
    const { hf_endpoint: endpoint, hf_redirect_hosts: redirectHosts = [] } = this.#options.config;
    const hub = endpoint && new Hub({ env, outbound, logger, endpoint, redirectHosts, registry });
    const { modelRoots: roots, hubCache } = this.#settings;
    return new ModelFiles({ env, roots, hubCache, ...(hub && { hub }) });
  }

  #launches(models: ModelFiles): Launches {
    const { engines, workerCommand, workerArgs, passEnv, workerHost } = this.#settings;
    const { slots, contextLength, allowCpuFallback, times } = this.#settings;
    return new Launches({
      env: this.#env,
      models,
      rules: engines,
      command: workerCommand,
      args: workerArgs,
      environment: workerEnvironment(passEnv),
      workerHost,
      slots,
      contextLength,
      allowCpuFallback,
      graceMs: times.graceMs,
      ownUrl: () => this.#ownUrl(),
    });
  }

  #workersOf(folder: PoolFolder, launches: Launches): Workers {
    const { workerHosts, maxWorkers, times } = this.#settings;
    return new Workers({
      context: {
        env: this.#env,
        layout: folder.layout,
        registry: folder.registryId,
        outbound: this.#outbound,
        logger: this.#options.logger,
        times,
        allowsUri: (uri) => allowsUri(uri, workerHosts),
      },
      devices: this.#devices,
      launches,
      maxWorkers,
      endsWorkers: this.#options.endWorkers ?? false,
      onChange: () => this.#feed.changed(),
    });
  }

  /** The URL for the workers of this machine. */
  #ownUrl(): string {
    const { host } = this.#settings;
    return `http://${isWildcardHost(host) ? '127.0.0.1' : urlHost(host)}:${this.#port()}`;
  }

  #port(): number {
    return this.#http?.port ?? 0;
  }

  /** Listens. Port 0 prefers the last port if it is free, because workers that are starting report to it. */
  async #listen(folder: PoolFolder, routes: Route[], tokens: readonly TokenEntry[]): Promise<void> {
    const { port } = this.#settings;
    const wanted = port === 0 ? (folder.lastPort ?? 0) : port;
    try {
      await this.#listenOn(wanted, routes, tokens);
    } catch (error) {
      if (port !== 0 || wanted === 0 || diskErrorCode(error) !== 'EADDRINUSE')
        throw listenFailure(error, this.#settings);
      await this.#listenOn(0, routes, tokens);
    }
    await folder.rememberPort(this.#port());
  }

  async #listenOn(port: number, routes: Route[], tokens: readonly TokenEntry[]): Promise<void> {
    const { host, gateHosts, isLocal } = this.#settings;
    const http = new HttpServer({
      host,
      port,
      routes,
      random: this.#env.random,
      timers: this.#env.timers,
      logger: this.#options.logger,
      limits: { maxBodyBytes: MAX_BODY_BYTES },
      gate: { allowedHosts: gateHosts, allowedOrigins: [], tokens: () => tokens, openWithoutTokens: isLocal },
    });
    await http.start();
    this.#http = http;
  }

  #registrationOf({ logger, brainToken }: PoolOptions): Registration {
    const { brains, registerMs, poolId } = this.#settings;
    return new Registration({
      env: this.#env,
      outbound: this.#outbound,
      logger,
      brains,
      token: brainToken,
      everyMs: registerMs,
      body: () => ({
        pool_id: poolId,
        uri: this.url,
        ...(this.#token !== undefined && { token: this.#token }),
      }),
    });
  }
}

function listenFailure(error: unknown, { host, port }: PoolManagerSettings): unknown {
  const code = diskErrorCode(error);
  if (!['EADDRINUSE', 'EACCES', 'EADDRNOTAVAIL'].includes(code ?? '')) return error;
  return new OrchdError('CONFIG_INVALID', `cannot listen on ${host}:${port} (${code})`);
}

/** Starts a pool manager in this process. */
export async function startPool(options: PoolOptions): Promise<PoolManager> {
  const manager = new PoolManager(options);
  await manager.start();
  return manager;
}
