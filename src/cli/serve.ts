/** The brain with its HTTP surface: what `orchd up` runs. Apart from the library, which needs no server. */
import { join, resolve } from 'node:path';
import { apiRoutes } from '../api/api.ts';
import { runtimeSettings, storeOf } from '../app.ts';
import { CommandBackend } from '../backends/local/command/command.ts';
import { demoBackendOptions } from '../backends/local/command/demo.ts';
import { isLoopbackHost } from '../config/address.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { CommandConfig } from '../config/schema.ts';
import type { Backend } from '../core/ports.ts';
import { diskErrorCode, type Env } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import type { Logger } from '../kit/logger.ts';
import { OrchdError } from '../model/errors.ts';
import { Orchestrator } from '../runtime/orchestrator.ts';
import { Narrator } from '../telemetry/narrator.ts';
import { LOOPBACK_HOSTS } from '../wire/gate.ts';
import { HttpServer } from '../wire/http-server.ts';
import { TokenFile } from '../wire/token-file.ts';

export const TOKENS = 'tokens.json';
/** What a request may hold beside its payload. */
const BODY_MARGIN_BYTES = 2 ** 20;

export interface ServerOptions {
  readonly config: ResolvedConfig;
  readonly data: string;
  readonly version: string;
  readonly logger: Logger;
  readonly host?: string;
  readonly port?: number;
}

export interface RunningServer {
  readonly url: string;
  readonly orchestrator: Orchestrator;
  stop(): Promise<void>;
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config, logger } = options;
  const env = realEnv();
  const folder = resolve(options.data);
  const host = options.host ?? config.server.host;
  const tokens = new TokenFile(env, join(folder, TOKENS));
  await tokens.start();
  if (!isLoopbackHost(host) && tokens.entries.length === 0) {
    tokens.stop();
    throw new OrchdError(
      'CONFIG_INVALID',
      `${host} can be reached from other machines, so callers need a token: run \`orchd token create NAME --role admin\` first`,
    );
  }
  const store = storeOf(env, config, folder, logger);
  const backends = localBackends(env, config, folder);
  const orchestrator = new Orchestrator({
    env,
    store,
    backends,
    settings: runtimeSettings(config),
    logger,
    observer: new Narrator(logger),
  });
  const http = httpServer(options, env, host, orchestrator, tokens);
  const stop = async (): Promise<void> => {
    tokens.stop();
    orchestrator.following.closeAll();
    await http.close();
    await orchestrator.stop();
  };
  try {
    await orchestrator.start();
    const bound = await http.listen();
    return { url: `http://${inUrl(host)}:${bound.port}`, orchestrator, stop };
  } catch (error) {
    await stop().catch(() => undefined);
    throw listenFailure(error, host, options.port ?? config.server.port);
  }
}

function httpServer(
  options: ServerOptions,
  env: Env,
  host: string,
  orchestrator: Orchestrator,
  tokens: TokenFile,
): HttpServer {
  const { config, logger, version } = options;
  const { server, queue } = config;
  const started = env.clock.monotonic();
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
      hosts: [...LOOPBACK_HOSTS, inUrl(host), ...server.allowedHosts],
      origins: server.allowedOrigins,
      tokens: () => tokens.entries,
      openWithoutTokens: isLoopbackHost(host),
    },
    routes: apiRoutes(orchestrator, {
      env,
      version,
      store: config.store.kind,
      queuePolicy: queue.policy,
      queueCapacity: queue.capacity,
      heartbeatMs: server.heartbeatMs,
      disconnectGraceMs: server.disconnectGraceMs,
      maxStreamsPerCaller: server.maxStreamsPerCaller,
      uptimeMs: () => env.clock.monotonic() - started,
    }),
  });
}

/** An IPv6 address stands in brackets. */
const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host);

function localBackends(env: Env, config: ResolvedConfig, folder: string): Backend[] {
  const executions = join(folder, 'executions');
  const commands = config.backends.commands.map(
    (command) =>
      new CommandBackend(env, { ...(command as CommandConfig), folder: join(executions, command.name) }),
  );
  const demo = config.backends.demo
    ? [new CommandBackend(env, demoBackendOptions(join(executions, 'demo')))]
    : [];
  return [...commands, ...demo];
}

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
