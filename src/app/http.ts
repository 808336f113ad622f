/** The HTTP surface of a server. */
import type { ApiOptions } from '../api/api.ts';
import type { Reloading } from '../api/control.ts';
import type { ModuleDirectory } from '../api/modules.ts';
import { isLoopbackHost } from '../config/address.ts';
import { Service } from '../kit/service.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { LOOPBACK_HOSTS } from '../wire/access-gate.ts';
import { HttpServer } from '../wire/http-server.ts';
import type { Route } from '../wire/route.ts';
import { isRevoked } from '../wire/tokens.ts';
import type { ServerParts } from './parts.ts';

/** Room for what a request holds beside its payload. */
const BODY_MARGIN_BYTES = 2 ** 20;

/** What the gate of a cluster node accepts in addition: the host names by which other nodes reach it, and their secret. */
export interface NodeGate {
  readonly hosts: readonly string[];
  readonly secret: () => string;
}

export function httpServer(
  { options, env, host, tokens, tally, answerRoom }: ServerParts,
  routes: readonly Route[],
  node?: NodeGate,
): HttpServer {
  const { config, logger } = options;
  const { server, queue } = config;
  const http = new HttpServer({
    host,
    port: options.port ?? server.port,
    random: env.random,
    timers: env.timers,
    logger,
    answerRoom,
    observed: { by: tally.http, clock: env.clock },
    limits: {
      maxConnections: server.maxConnections,
      maxConnectionsPerAddress: server.maxConnectionsPerAddress,
      maxBodyBytesInFlight: server.maxBodyBytesInFlight,
      maxBodyBytes: queue.maxPayloadBytes + BODY_MARGIN_BYTES,
    },
    gate: {
      hostSetting: 'server.allowed_hosts',
      allowedHosts: [...LOOPBACK_HOSTS, inUrl(host), ...server.allowedHosts, ...(node?.hosts ?? [])],
      allowedOrigins: server.allowedOrigins,
      tokens: () => tokens.entries,
      openWithoutTokens: isLoopbackHost(host),
      ...(node && { clusterSecret: node.secret }),
    },
    routes,
  });
  tokens.onChange(() => http.endRevoked());
  return http;
}

export function apiOptions(
  { options, env, uptimeMs, tally, tokens, answerRoom, agents }: ServerParts,
  modules: ModuleDirectory,
  reloading: Reloading,
): ApiOptions {
  const { server, queue, store, leases, pools, money } = options.config;
  return {
    env,
    version: options.version,
    store: store.kind,
    queuePolicy: queue.policy,
    queueCapacity: queue.capacity,
    heartbeatMs: server.heartbeatMs,
    leaseTtlMs: leases.ttlMs,
    verifyPolicy: pools.verifyPolicy,
    currency: money.currency,
    disconnectGraceMs: server.disconnectGraceMs,
    maxStreamsPerCaller: server.maxStreamsPerCaller,
    // One tenant cannot take all connections of the server.
    maxStreamsPerTenant: Math.floor(server.maxConnections / 2),
    isRevoked: (identity) => isRevoked(identity, tokens.entries),
    uptimeMs,
    tally,
    answerRoom,
    agents,
    modules,
    reloading,
  };
}

export const urlOf = (host: string, port: number): string => `http://${inUrl(host)}:${port}`;

/** An IPv6 address stands in brackets. */
const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/**
 * The last service of a server, so that it is stopped first: callers are answered and their streams ended before the
 * brain that answers them stops.
 */
export class OpenCalls extends Service {
  readonly #http: HttpServer;
  readonly #orchestrator: () => Orchestrator | undefined;

  constructor(http: HttpServer, orchestrator: () => Orchestrator | undefined) {
    super();
    this.#http = http;
    this.#orchestrator = orchestrator;
  }

  /** Whether the server is stopping. */
  get closing(): boolean {
    return this.stopSignal.aborted;
  }

  protected async onStart(): Promise<void> {}

  protected async onStop(): Promise<void> {
    this.#orchestrator()?.following.closeAll();
    await this.#http.stop();
  }
}
