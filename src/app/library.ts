/** orchd as a library: a brain inside of another program, without a server. */
import { resolve } from 'node:path';
import { Agents } from '../agents/agents.ts';
import type { Tool } from '../agents/tools/tool.ts';
import { FunctionBackend, type FunctionBackendOptions } from '../backends/local/functions.ts';
import { hasRedis } from '../backends/stream/settings.ts';
import { loadConfig } from '../config/load.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Backend, BackendSource } from '../core/ports/backend.ts';
import type { Env } from '../kit/env/env.ts';
import { realEnv } from '../kit/env/real.ts';
import { createLogger, type Logger } from '../kit/logger.ts';
import { didYouMean } from '../kit/nearest.ts';
import { OrchdError } from '../model/errors.ts';
import { OWN_TYPES } from '../model/run-jobs.ts';
import { Orchestrator } from '../runtime/orchestrator.ts';
import { storeFor } from '../stores/registry.ts';
import { commandPlace, commandSandbox } from './agent-commands.ts';
import { secureDataFolder } from './data-folder.ts';
import { mcpServers } from './mcp-servers.ts';
import { runReads } from './run-reads.ts';
import { runtimeSettings } from './settings.ts';

export interface OrchestratorOptions {
  /** The data folder, or `memory` to keep nothing; the configured checkpoint_dir by default. */
  readonly data?: string;
  readonly backends: readonly (Backend | FunctionBackendOptions)[];
  /** Sources of backends that may appear and disappear while the brain runs. */
  readonly sources?: readonly BackendSource[];
  /** Tools for the agents of the configuration. */
  readonly tools?: readonly Tool[];
  /** Configuration as YAML text; the defaults hold for what it leaves out. */
  readonly config?: string;
  /** The data is a copy, or a restored backup: jobs that were running in it count as unknown. */
  readonly isCopy?: boolean;
  readonly logger?: Logger;
  readonly env?: Env;
}

const OPTIONS: Readonly<Record<keyof OrchestratorOptions, true>> = {
  data: true,
  backends: true,
  sources: true,
  tools: true,
  config: true,
  isCopy: true,
  logger: true,
  env: true,
};

/** For programs without types: a misspelt `data` would open the folder of the server. */
function checkOptions(options: OrchestratorOptions): void {
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(OPTIONS, name)) continue;
    const message = `there is no option "${name}"${didYouMean(name, Object.keys(OPTIONS))}`;
    throw new OrchdError('INVALID_PARAMS', message, { field: name });
  }
  if (!Array.isArray(options.backends))
    throw new OrchdError('INVALID_PARAMS', '"backends" must be an array', { field: 'backends' });
  for (const backend of options.backends) {
    const types = 'info' in backend ? (backend.info.types ?? []) : backend.types;
    if (typeof types !== 'object' || types === null) {
      const message = 'a backend needs "types": an object with a function for each type of job';
      throw new OrchdError('INVALID_PARAMS', message, { field: 'backends' });
    }
    const own = (Array.isArray(types) ? types : Object.keys(types)).find((type) => OWN_TYPES.includes(type));
    if (own === undefined) continue;
    const message = `jobs of type "${own}" belong to the runs of agents: a backend cannot take them`;
    throw new OrchdError('INVALID_PARAMS', message, { field: 'backends' });
  }
}

/** What only the server runs would be ignored without a word; `instead` says what a program does. */
function refuseServerParts(config: ResolvedConfig): void {
  const { schedules, modules, gateway, backends } = config;
  const parts: readonly (readonly [field: string, entries: readonly unknown[], instead: string])[] = [
    ['schedules', schedules, 'a program submits at its own times'],
    ['modules', modules, 'a program submits what it finds itself'],
    ['gateway.seats', gateway.seats, 'give a BackendSource in "sources"'],
    ['redis', hasRedis(config) ? ['its address'] : [], 'start the server for consumers'],
    ['backends.gateways', backends.gateways, 'give a BackendSource in "sources"'],
  ];
  for (const [field, entries, instead] of parts)
    if (entries.length > 0)
      throw new OrchdError('INVALID_PARAMS', `${field} is a part of the server: ${instead}`, { field });
}

/** Starts an orchestrator in this process and returns it once it has recovered. */
export async function createOrchestrator(options: OrchestratorOptions): Promise<Orchestrator> {
  checkOptions(options);
  const config = loadConfig(options.config === undefined ? {} : { text: options.config });
  refuseServerParts(config);
  const env = options.env ?? realEnv();
  const logger = options.logger ?? quietLogger(env, config);
  const { sources = [], isCopy = false } = options;
  const folder = options.data ?? config.state.checkpointDir;
  const descriptor = storeFor(config, folder);
  if (!descriptor.keepsNothing) await secureDataFolder(env.disk, resolve(folder), logger);
  const store = descriptor.open({ env, config, folder, logger, isCopy });
  const backends = options.backends.map((backend) =>
    'info' in backend ? backend : new FunctionBackend(env, backend),
  );
  const agents = new Agents({
    env,
    logger,
    agents: config.agents,
    folders: { data: resolve(folder) },
    tools: options.tools ?? [],
    sandbox: await commandSandbox(config, logger),
    mcp: mcpServers(config.mcp, { env, logger, data: folder }),
  });
  const place = descriptor.keepsNothing ? undefined : await commandPlace(env.disk, agents, folder, isCopy);
  if (!place && agents.hasCommands)
    throw new OrchdError('INVALID_PARAMS', 'commands of agents need a data folder: set "data"', {
      field: 'data',
    });
  if (descriptor.keepsNothing && agents.mcp)
    throw new OrchdError('INVALID_PARAMS', 'MCP servers need a data folder: set "data"', { field: 'data' });
  const orchestrator: Orchestrator = new Orchestrator({
    env,
    store,
    backends: [
      ...backends,
      ...agents.backends(
        runReads(() => orchestrator),
        place,
      ),
    ],
    sources,
    settings: runtimeSettings(config),
    isCopy,
    logger,
  });
  await orchestrator.start();
  return orchestrator;
}

/** A library says nothing on its host's standard output: only what goes wrong, on standard error. */
function quietLogger(env: Env, config: ResolvedConfig): Logger {
  return createLogger({
    write: (line) => {
      process.stderr.write(line);
    },
    now: () => env.clock.now(),
    level: config.log.level === 'info' ? 'warn' : config.log.level,
  });
}
