/** The brain with its HTTP surface: what `orchd up` runs. */
import { dirname, join, resolve } from 'node:path';
import { Agents } from '../agents/agents.ts';
import { apiRoutes } from '../api/api.ts';
import { isLoopbackHost } from '../config/address.ts';
import { ByteRoom } from '../kit/byte-room.ts';
import { diskErrorCode, type Env } from '../kit/env/env.ts';
import { MeasuredDisk } from '../kit/env/measured-disk.ts';
import { realEnv } from '../kit/env/real.ts';
import { ServiceList } from '../kit/service-list.ts';
import { OrchdError } from '../model/errors.ts';
import type { ReloadReport } from '../model/http/reload.ts';
import type { LeftWork } from '../runtime/left-work.ts';
import { configuredStore } from '../stores/registry.ts';
import type { StorageTally } from '../telemetry/storage-metrics.ts';
import { Tally } from '../telemetry/tally.ts';
import type { HttpServer } from '../wire/http-server.ts';
import { TOKEN_FILE, TokenFile } from '../wire/token-file.ts';
import { commandSandbox, runsCommands } from './agent-commands.ts';
import { Brain } from './brain.ts';
import { secureDataFolder } from './data-folder.ts';
import { FolderMeter } from './folder-meter.ts';
import { apiOptions, httpServer, OpenCalls, urlOf } from './http.ts';
import { mcpServers } from './mcp-servers.ts';
import { ClusterNode } from './node.ts';
import type { RunningServer, ServerOptions, ServerParts } from './parts.ts';
import { Reloader } from './reloader.ts';
import { checkTokenNeeded } from './token-needed.ts';

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config } = options;
  const tally = new Tally({ algorithm: config.placement.algorithm });
  const env = measuredEnv(options, tally.storage);
  const host = options.host ?? config.server.host;
  const tokenPath = join(resolve(options.data), TOKEN_FILE);
  await secureDataFolder(env.disk, resolve(options.data), options.logger);
  await checkTokenNeeded(env.disk, host, options.data);
  const startedAt = env.clock.monotonic();
  const parts: ServerParts = {
    options,
    env,
    host,
    tokens: new TokenFile(env, tokenPath, options.logger, isLoopbackHost(host)),
    uptimeMs: () => env.clock.monotonic() - startedAt,
    tally,
    folderMeter: new FolderMeter({ ...storeFolder(options), env, tally: tally.storage }),
    answerRoom: new ByteRoom(config.server.maxAnswerBytesInFlight),
    ...(await agentsOf(options, env)),
  };
  const leadership = configuredStore(config).leadership?.(env, config);
  const server = leadership ? new ClusterNode(parts, leadership) : new LoneServer(parts);
  try {
    await server.start();
  } catch (error) {
    throw listenFailure(error, host, options.port ?? config.server.port);
  }
  return server;
}

/** Throws INVALID_PARAMS for an agent that cannot be used. */
async function agentsOf(
  { config, logger, data, version }: ServerOptions,
  env: Env,
): Promise<Pick<ServerParts, 'agents' | 'runsCommands'>> {
  const folder = resolve(data);
  const sandbox = await commandSandbox(config, logger);
  const mcp = mcpServers(config.mcp, { env, logger, data, version });
  const agents = new Agents({
    env,
    logger,
    agents: config.agents,
    folders: { data: folder },
    sandbox,
    mcp,
  });
  return { agents, runsCommands: await runsCommands(env.disk, agents, folder) };
}

const storeFolder = ({ config, data }: ServerOptions) => ({
  folder: resolve(data),
  parts: configuredStore(config).parts?.(data) ?? {},
});

/** The real env; how long syncs take is counted by the part of the store whose file is synced. */
function measuredEnv(options: ServerOptions, tally: StorageTally): Env {
  const env = realEnv();
  const parts = Object.entries(storeFolder(options).parts);
  const partOf = (path: string): string =>
    parts.find(([, paths]) => paths.some((each) => dirname(path) === each))?.[0] ?? 'other';
  const disk = new MeasuredDisk(env.disk, env.clock, (path, ms) => tally.synced(partOf(path), ms));
  return { ...env, disk };
}

/** A server whose store has room for one brain only. */
class LoneServer extends ServiceList implements RunningServer {
  readonly #host: string;
  readonly #brain: Brain;
  readonly #http: HttpServer;
  readonly #reloader: Reloader;

  constructor(parts: ServerParts) {
    const brain = new Brain(parts);
    const { orchestrator } = brain;
    const reloader = new Reloader(parts, async () => brain);
    const { streams } = brain;
    const redisProblems = streams && (() => streams.problems());
    const options = { ...apiOptions(parts, brain.modules, reloader), redisProblems };
    const http = httpServer(parts, apiRoutes(orchestrator, options));
    super([parts.tokens, brain, parts.folderMeter, reloader, http, new OpenCalls(http, () => orchestrator)]);
    this.#host = parts.host;
    this.#brain = brain;
    this.#http = http;
    this.#reloader = reloader;
  }

  reload(by: string): Promise<ReloadReport> {
    return this.#reloader.reload(by);
  }

  get url(): string {
    return urlOf(this.#host, this.#http.port);
  }

  get models(): readonly string[] {
    return this.#brain.models;
  }

  get left(): LeftWork {
    return this.#brain.left;
  }

  get failure(): Error | undefined {
    return this.#brain.orchestrator.failure;
  }
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
