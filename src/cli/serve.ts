/** The brain with its HTTP surface: what `orchd up` runs. Apart from the library, which needs no server. */

import { join, resolve } from 'node:path';
import { type ApiOptions, apiRoutes } from '../api/api.ts';
import { runtimeSettings } from '../app.ts';
import { HttpPoolManagers } from '../backends/pool/managers.ts';
import { configuredBackends } from '../backends/registry.ts';
import { isLoopbackHost } from '../config/address.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Backend } from '../core/ports/backend.ts';
import type { Term } from '../core/ports/leadership.ts';
import { diskErrorCode, type Env } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import type { Logger } from '../kit/logger.ts';
import { OrchdError } from '../model/errors.ts';
import { Orchestrator } from '../runtime/orchestrator.ts';
import type { NodeLeadership } from '../stores/descriptor.ts';
import { configuredStore } from '../stores/registry.ts';
import { Narrator } from '../telemetry/narrator.ts';
import { observers } from '../telemetry/observers.ts';
import { Tally } from '../telemetry/tally.ts';
import { LOOPBACK_HOSTS } from '../wire/gate.ts';
import { HttpServer } from '../wire/http-server.ts';
import type { Route } from '../wire/route.ts';
import { TokenFile } from '../wire/token-file.ts';
import { importCatalog } from './catalog-files.ts';
import { OwnPool, type PoolAddress } from './own-pool.ts';
import type { RunningServer } from './running-server.ts';
import { type NodeGate, serveNode } from './serve-node.ts';

export const TOKENS = 'tokens.json';
/** Of one worker: a stream for each job that it runs, and for each that is read again. */
const MAX_WORKER_STREAMS = 2048;
/** What a request may hold beside its payload. */
const BODY_MARGIN_BYTES = 2 ** 20;

export interface ServerOptions {
  readonly config: ResolvedConfig;
  readonly data: string;
  readonly version: string;
  readonly logger: Logger;
  readonly host?: string;
  readonly port?: number;
  /** Beside those of the configuration. */
  readonly backends?: readonly Backend[];
  /** Models that are to be answered from here, by workers of this machine. */
  readonly models?: readonly string[];
  /** How long the context of these models is to be. */
  readonly contextLength?: number | undefined;
  /** Options for those workers. */
  readonly workerArgs?: readonly string[];
}

/** What both kinds of server are made of. */
interface Parts {
  readonly options: ServerOptions;
  readonly env: Env;
  readonly host: string;
  readonly tokens: TokenFile;
  readonly uptimeMs: () => number;
  /** Of this process: a node that leads again goes on counting. */
  readonly tally: Tally;
  readonly ownPool?: PoolAddress | undefined;
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config } = options;
  const env = realEnv();
  const host = options.host ?? config.server.host;
  const tokens = new TokenFile(env, join(resolve(options.data), TOKENS));
  await tokens.start();
  if (!isLoopbackHost(host) && tokens.entries.length === 0) {
    await tokens.stop();
    throw new OrchdError(
      'CONFIG_INVALID',
      `${host} can be reached from other machines, so callers need a token: run \`orchd token create NAME --role admin --data ${options.data}\` first`,
    );
  }
  const started = env.clock.monotonic();
  const uptimeMs = (): number => env.clock.monotonic() - started;
  const tally = new Tally({ algorithm: config.placement.algorithm });
  const parts: Parts = { options, env, host, tokens, uptimeMs, tally };
  try {
    const leadership = configuredStore(config).leadership?.(env, config);
    return await (leadership ? startNode(parts, leadership) : startAlone(parts));
  } catch (error) {
    await tokens.stop();
    throw listenFailure(error, host, options.port ?? config.server.port);
  }
}

async function startAlone(parts: Parts): Promise<RunningServer> {
  const own = ownPoolOf(parts);
  await own?.start();
  const orchestrator = brainOf({ ...parts, ownPool: own?.address });
  const http = httpServer(parts, apiRoutes(orchestrator, apiOptions(parts)));
  const stop = async (): Promise<void> => {
    await parts.tokens.stop();
    orchestrator.following.closeAll();
    await http.stop();
    await orchestrator.stop();
    await own?.stop();
  };
  try {
    await orchestrator.start();
    await own?.register(orchestrator);
    await http.start();
    importFiles(parts, orchestrator);
    return {
      url: `http://${inUrl(parts.host)}:${http.port}`,
      models: own?.names ?? [],
      get failure() {
        return orchestrator.failure;
      },
      stop,
    };
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
}

/** One of several on the same store: it listens at once, and leads when it is its turn. */
function startNode(parts: Parts, leadership: NodeLeadership): Promise<RunningServer> {
  const { options, env } = parts;
  if (options.models && options.models.length > 0) {
    const { title } = configuredStore(options.config);
    throw new OrchdError(
      'CONFIG_INVALID',
      `on ${title} start \`orchd pool\` for models: its workers serve all nodes`,
    );
  }
  return serveNode({
    env,
    config: options.config,
    logger: options.logger,
    leadership,
    brain: (term, node) => {
      const brain = brainOf(parts, term, node);
      if (term) importFiles(parts, brain);
      return brain;
    },
    routes: (brain, how) => apiRoutes(brain, { ...apiOptions(parts), ...how }),
    server: (routes, node) => httpServer(parts, routes, node),
    urlOf: (port) => `http://${inUrl(parts.host)}:${port}`,
    onStop: () => parts.tokens.stop(),
  });
}

function ownPoolOf({ options, env }: Parts): OwnPool | undefined {
  const { models = [], workerArgs = [], contextLength, logger, data } = options;
  if (models.length === 0) return undefined;
  return new OwnPool({ env, logger, models, workerArgs, contextLength, data: resolve(data) });
}

/** Beside everything else: a file that cannot be read must not keep the brain from starting. */
function importFiles({ options, env }: Parts, orchestrator: Orchestrator): void {
  const { config, logger } = options;
  const files = { env, logger, folder: resolve(config.state.catalogPath) };
  importCatalog(files, orchestrator).catch((error: Error) =>
    logger.warn('the catalog files could not be imported', { reason: error.message }),
  );
}

function managersOf({ options, env, ownPool }: Parts): HttpPoolManagers {
  const { config, logger } = options;
  const { pools, pool } = config;
  const secret = pools.token.reveal();
  const configured = pool.managerUrls.map((url) => ({ url, secret: secret === '' ? undefined : secret }));
  return new HttpPoolManagers({
    env,
    logger,
    pools: ownPool ? [...configured, ownPool] : configured,
    maxAgeMs: pools.stateMaxAgeMs,
    startTimeoutMs: pools.startTimeoutMs,
    allowedHosts: pools.allowedWorkerHosts,
    maxStreams: MAX_WORKER_STREAMS,
  });
}

function brainOf(parts: Parts, term?: Term, node?: string): Orchestrator {
  const { options, env } = parts;
  const { config, logger } = options;
  const folder = resolve(options.data);
  return new Orchestrator({
    managers: managersOf(parts),
    env,
    store: configuredStore(config).open({ env, config, folder, logger, term }),
    backends: [...localBackends(env, config, folder, node), ...(options.backends ?? [])],
    settings: runtimeSettings(config),
    logger,
    observer: observers([new Narrator(logger), parts.tally]),
  });
}

function apiOptions({ options, env, uptimeMs, tally }: Parts): ApiOptions {
  const { server, queue, store, leases } = options.config;
  return {
    env,
    version: options.version,
    store: store.kind,
    queuePolicy: queue.policy,
    queueCapacity: queue.capacity,
    heartbeatMs: server.heartbeatMs,
    leaseTtlMs: leases.ttlMs,
    verifyPolicy: options.config.pools.verifyPolicy,
    disconnectGraceMs: server.disconnectGraceMs,
    maxStreamsPerCaller: server.maxStreamsPerCaller,
    uptimeMs,
    tally,
  };
}

function httpServer(
  { options, env, host, tokens }: Parts,
  routes: readonly Route[],
  node?: NodeGate,
): HttpServer {
  const { config, logger } = options;
  const { server, queue } = config;
  return new HttpServer({
    host,
    port: options.port ?? server.port,
    random: env.random,
    logger,
    limits: {
      maxConnections: server.maxConnections,
      maxBodyBytes: queue.maxPayloadBytes + BODY_MARGIN_BYTES,
    },
    gate: {
      hosts: [...LOOPBACK_HOSTS, inUrl(host), ...server.allowedHosts, ...(node?.hosts ?? [])],
      origins: server.allowedOrigins,
      tokens: () => tokens.entries,
      openWithoutTokens: isLoopbackHost(host),
      ...(node && { nodeSecret: node.secret }),
    },
    routes,
  });
}

/** An IPv6 address stands in brackets. */
const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host);

const localBackends = (env: Env, config: ResolvedConfig, folder: string, node?: string): Backend[] =>
  configuredBackends(config).map((configured) =>
    configured.make({ env, folder: join(folder, 'executions', configured.name), node }),
  );

function listenFailure(error: unknown, host: string, port: number): unknown {
  const code = diskErrorCode(error);
  if (code === 'EADDRINUSE') {
    return new OrchdError('CONFIG_INVALID', `${host}:${port} is in use: choose another port with --port`);
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL') {
    return new OrchdError('CONFIG_INVALID', `cannot listen on ${host}:${port} (${code})`);
  }
  return error;
}
