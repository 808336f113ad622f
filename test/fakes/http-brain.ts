/** A brain with its HTTP surface in this process, on a free port: for tests of what goes over the wire. */

import { Agents } from '../../src/agents/agents.ts';
import type { Tool } from '../../src/agents/tools/tool.ts';
import { apiRoutes } from '../../src/api/api.ts';
import type { Reloading } from '../../src/api/control.ts';
import type { ModuleDirectory } from '../../src/api/modules.ts';
import { mcpServers } from '../../src/app/mcp-servers.ts';
import { runReads } from '../../src/app/run-reads.ts';
import { runtimeSettings } from '../../src/app/settings.ts';
import { FunctionBackend, type FunctionBackendOptions } from '../../src/backends/local/functions.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Backend } from '../../src/core/ports/backend.ts';
import type { Doorbell } from '../../src/core/ports/doorbell.ts';
import type { PoolManagers } from '../../src/core/ports/pools.ts';
import { ByteRoom } from '../../src/kit/byte-room.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { OrchdError } from '../../src/model/errors.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { MemoryStore } from '../../src/stores/memory/memory.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { Narrator } from '../../src/telemetry/narrator.ts';
import { observers } from '../../src/telemetry/observers.ts';
import { RunTelemetry } from '../../src/telemetry/run-telemetry.ts';
import { Tally } from '../../src/telemetry/tally.ts';
import { LOOPBACK_HOSTS } from '../../src/wire/access-gate.ts';
import { HTTP_LIMITS, type HttpLimits, HttpServer } from '../../src/wire/http-server.ts';
import type { Route } from '../../src/wire/route.ts';
import { isRevoked, type TokenEntry } from '../../src/wire/tokens.ts';

const NO_MODULES: ModuleDirectory = {
  views: () => [],
  scanNow: () => {
    throw new OrchdError('NOT_FOUND', 'there is no such module');
  },
};

export interface HttpBrainOptions {
  /** Tools for the agents of the configuration. */
  readonly tools?: readonly Tool[];
  readonly backends?: readonly (FunctionBackendOptions | Backend)[];
  readonly config?: string;
  readonly managers?: PoolManagers;
  /** The folder of a journal; without one everything is in memory, unless the configuration names a database. */
  readonly data?: string;
  readonly tokens?: readonly TokenEntry[];
  readonly limits?: Partial<HttpLimits>;
  readonly disconnectGraceMs?: number;
  /** How long a stop waits for work that is lost with it, for tests that want it to be lost. */
  readonly drainMs?: number;
  readonly heartbeatMs?: number;
  readonly maxStreamsPerCaller?: number;
  readonly maxStreamsPerTenant?: number;
  /** Tells consumers which jobs wait for them. */
  readonly doorbell?: Doorbell;
  readonly env?: Env;
  /** Origins of pages that may use it. */
  readonly origins?: readonly string[];
}

export interface HttpBrain {
  readonly url: string;
  readonly port: number;
  readonly orchestrator: Orchestrator;
  readonly tally: Tally;
  readonly logged: string[];
  readonly routes: readonly Route[];
  /** Call it after a change of `tokens`. */
  endRevoked(): void;
  stop(): Promise<void>;
}

/** As a server that was started without a file. */
const NO_RELOADING: Reloading = {
  reports: [],
  reload: async () => {
    throw new OrchdError('NO_CONFIG_FILE');
  },
};

export async function httpBrain(options: HttpBrainOptions = {}): Promise<HttpBrain> {
  const { env = realEnv(), doorbell } = options;
  const logged: string[] = [];
  const logger = createLogger({
    write: (line) => logged.push(line),
    now: () => env.clock.now(),
    level: 'debug',
  });
  const config = loadConfig(options.config === undefined ? {} : { text: options.config });
  const backends = (options.backends ?? []).map((backend) =>
    'info' in backend ? backend : new FunctionBackend(env, backend),
  );
  const { data = 'memory' } = options;
  const isInMemory = data === 'memory' && config.store.kind === 'journal';
  const store = isInMemory
    ? new MemoryStore(env.timers)
    : configuredStore(config).open({ env, config, folder: data, logger });
  const tally = new Tally({ algorithm: config.placement.algorithm });
  const answerRoom = new ByteRoom({ ...HTTP_LIMITS, ...options.limits }.maxAnswerBytesInFlight);
  const agents = new Agents({
    env,
    logger,
    agents: config.agents,
    tools: options.tools ?? [],
    mcp: mcpServers(config.mcp, { env, logger, data: config.state.checkpointDir }),
  });
  const orchestrator: Orchestrator = new Orchestrator({
    answerRoom,
    env,
    store,
    backends: [...backends, ...agents.backends(runReads(() => orchestrator))],
    settings: {
      ...runtimeSettings(config),
      ...(options.drainMs !== undefined && { drainMs: options.drainMs }),
    },
    logger,
    ...(options.managers && { managers: options.managers }),
    ...(doorbell && { doorbell }),
    observer: observers([new Narrator(logger), new RunTelemetry(logger, tally.runs), tally]),
  });
  await orchestrator.start();
  const routes = apiRoutes(orchestrator, {
    env,
    version: '0.0.0',
    store: 'memory',
    queuePolicy: config.queue.policy,
    queueCapacity: config.queue.capacity,
    leaseTtlMs: config.leases.ttlMs,
    heartbeatMs: options.heartbeatMs ?? 15_000,
    disconnectGraceMs: options.disconnectGraceMs ?? 5000,
    maxStreamsPerCaller: options.maxStreamsPerCaller ?? 1000,
    maxStreamsPerTenant: options.maxStreamsPerTenant ?? 1000,
    isRevoked: (identity) => isRevoked(identity, options.tokens ?? []),
    verifyPolicy: 'warn',
    currency: config.money.currency,
    uptimeMs: () => env.clock.monotonic(),
    tally,
    answerRoom,
    agents,
    modules: NO_MODULES,
    reloading: NO_RELOADING,
  });
  const http = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    random: env.random,
    timers: env.timers,
    logger,
    answerRoom,
    observed: { by: tally.http, clock: env.clock },
    ...(options.limits && { limits: options.limits }),
    gate: {
      allowedHosts: LOOPBACK_HOSTS,
      allowedOrigins: options.origins ?? [],
      tokens: () => options.tokens ?? [],
      openWithoutTokens: true,
    },
    routes,
  });
  await http.start();
  const { port } = http;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    orchestrator,
    tally,
    logged,
    routes,
    endRevoked: () => http.endRevoked(),
    async stop() {
      orchestrator.following.closeAll();
      await http.stop();
      await orchestrator.stop();
    },
  };
}

/** The lines of the log about requests that were refused. */
export const refusalsOf = ({ logged }: Pick<HttpBrain, 'logged'>): Record<string, string>[] =>
  logged
    .map((line) => JSON.parse(line) as Record<string, string>)
    .filter(({ message }) => message === 'a request was refused');
