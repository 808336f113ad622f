/** What `orchd up` would refuse at its start, or what would not work, as far as that can be told without starting. */
import { constants, existsSync } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { moduleSettings } from '../adapters/modules/settings.ts';
import { checkSchedules } from '../adapters/schedules/check.ts';
import { Agents } from '../agents/agents.ts';
import { mcpServers } from '../app/mcp-servers.ts';
import { gatewayOf, gatewaysOf, spoolsOf, upstreamsOf } from '../app/server-settings.ts';
import { checkTokenNeeded } from '../app/token-needed.ts';
import type { McpServers } from '../backends/mcp/servers.ts';
import { configuredBackends } from '../backends/registry.ts';
import type { AgentConfig } from '../config/agents.ts';
import type { CommandConfig, SpoolConfig } from '../config/backends.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import { realEnv } from '../kit/env/real.ts';
import { RealDisk } from '../kit/env/real-disk.ts';
import { OrchdError } from '../model/errors.ts';
import { checkLimits, checkPrices } from '../runtime/check-limits.ts';
import { configuredStore } from '../stores/registry.ts';
import { readUniqueTokens, TOKEN_FILE } from '../wire/token-file.ts';

export interface Finding {
  /** With a fault `orchd up` does not start; with a warning something of it would not work. */
  readonly is: 'fault' | 'warning';
  /** The key of the configuration, such as `orchestrator.bind_addr`; empty if it is about none. */
  readonly path: string;
  /** Where it was set, if that is known. */
  readonly position: string;
  readonly message: string;
}

export interface StartSettings {
  readonly config: ResolvedConfig;
  readonly data: string;
  readonly host: string;
  readonly port: number;
}

const DATA = 'orchestrator.state.checkpoint_dir';

const finding = (is: Finding['is'], path: string, message: string): Finding => ({
  is,
  path,
  position: '',
  message,
});

export async function startFindings(settings: StartSettings): Promise<Finding[]> {
  const { config, data, host } = settings;
  const disk = new RealDisk();
  const tokens = join(resolve(data), TOKEN_FILE);
  const refusals = [
    await refusalOf('store', () => configuredStore(config).checkSettings?.(config)),
    await refusalOf('limits', () => checkLimits(config.limits)),
    await refusalOf('prices', () => checkPrices(config.money.prices)),
    await dataFault(resolve(data)),
    await refusalOf(DATA, () => readUniqueTokens(disk, tokens)),
    await refusalOf('orchestrator.bind_addr', () => checkTokenNeeded(disk, host, data)),
    await refusalOf('backends.upstreams', () => upstreamsOf(config, settings)),
    await refusalOf('backends.spools', () => spoolsOf(config)),
    await refusalOf('gateway', () => gatewayOf(config, upstreamNames(settings))),
    await refusalOf('backends.gateways', () => gatewaysOf(config)),
    await refusalOf('mcp', () => checkMcp(settings)),
    await refusalOf('agents', () => checkAgents(settings)),
    await refusalOf('modules', () => moduleSettings(config.modules)),
    await refusalOf('schedules', () => checkSchedules(config.schedules, Date.now())),
  ];
  return [
    // A token file that cannot be read is met twice.
    ...new Map(refusals.flatMap((each) => (each ? [[each.message, each] as const] : []))).values(),
    ...(await catalogWarning(config)),
    ...commandWarnings(config),
    ...spoolWarnings(config),
    ...agentCommandWarnings(config),
    ...nameWarnings(config),
  ];
}

/** None where they cannot be used: that is a finding of its own. */
function upstreamNames(settings: StartSettings): string[] {
  try {
    return upstreamsOf(settings.config, settings).map(({ name }) => name);
  } catch (error) {
    if (error instanceof OrchdError) return [];
    throw error;
  }
}

const checkMcp = ({ config, data }: StartSettings): McpServers | undefined =>
  mcpServers(config.mcp, { env: realEnv(), logger: undefined, data });

/** Agents are checked once the MCP servers are right, whose tools they may name. */
async function checkAgents(settings: StartSettings): Promise<unknown> {
  const { config, data } = settings;
  if (await refusalOf('mcp', () => checkMcp(settings))) return undefined;
  const mcp = checkMcp(settings);
  return new Agents({
    env: realEnv(),
    logger: undefined,
    agents: config.agents,
    folders: { data: resolve(data) },
    mcp,
  });
}

/** The refusal that a check of the start throws; it may name a key inside of `path`. */
async function refusalOf(path: string, check: () => unknown): Promise<Finding | undefined> {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (error instanceof OrchdError) {
      const { field = '' } = error.details;
      return finding('fault', isInside(field, path) ? field : path, error.message);
    }
    throw error;
  }
}

const isInside = (field: string, path: string): boolean =>
  field.startsWith(`${path}[`) || field.startsWith(`${path}.`);

/** A folder that does not exist is made at the start, in the nearest folder above it that does. */
async function dataFault(folder: string): Promise<Finding | undefined> {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error.code ?? 'UNKNOWN');
  if (typeof found === 'string') {
    if (found !== 'ENOENT') return finding('fault', DATA, `"${folder}" cannot be used (${found})`);
    return dirname(folder) === folder ? undefined : dataFault(dirname(folder));
  }
  if (!found.isDirectory()) return finding('fault', DATA, `"${folder}" is not a folder`);
  const isUsable = await canUse(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  return isUsable ? undefined : finding('fault', DATA, `"${folder}" cannot be written by this user`);
}

const canUse = (path: string, mode: number): Promise<boolean> =>
  access(path, mode).then(
    () => true,
    () => false,
  );

/** The start goes on without the files of a folder that cannot be read. */
async function catalogWarning({ state: { catalogPath } }: ResolvedConfig): Promise<Finding[]> {
  const isMissing = !existsSync(catalogPath);
  if (isMissing || (await canUse(catalogPath, constants.R_OK | constants.X_OK))) return [];
  return [finding('warning', 'orchestrator.catalog_path', `"${catalogPath}" cannot be read`)];
}

function commandWarnings({ backends }: ResolvedConfig): Finding[] {
  const commands = backends.commands as readonly CommandConfig[];
  return commands.flatMap(({ types }, at) =>
    Object.entries(types).flatMap(([type, { argv, cwd }]) => {
      const path = `backends.commands[${at}].types.${type}`;
      const [program = ''] = argv;
      // Names that are not absolute are looked up when the command is run. Values are not repeated: they may be secret.
      const isGone = isAbsolute(program) && !existsSync(program);
      return [
        ...(isGone ? [finding('warning', `${path}.argv`, 'names a file that does not exist')] : []),
        ...(cwd !== undefined && !existsSync(cwd)
          ? [finding('warning', `${path}.cwd`, 'names a folder that does not exist')]
          : []),
      ];
    }),
  );
}

const spoolWarnings = ({ backends }: ResolvedConfig): Finding[] =>
  (backends.spools as readonly SpoolConfig[]).flatMap(({ folder }, at) =>
    existsSync(folder)
      ? []
      : [finding('warning', `backends.spools[${at}].folder`, 'names a folder that does not exist')],
  );

/** A call of a command whose folder does not exist fails, and its model is told. */
const agentCommandWarnings = ({ agents }: ResolvedConfig): Finding[] =>
  (agents as readonly AgentConfig[]).flatMap(({ commands = [] }, at) =>
    commands.flatMap(({ folder }, n) =>
      folder === undefined || existsSync(folder)
        ? []
        : [finding('warning', `agents[${at}].commands[${n}].folder`, 'names a folder that does not exist')],
    ),
  );

function nameWarnings(config: ResolvedConfig): Finding[] {
  const names = configuredBackends(config).map(({ name }) => name);
  const twice = new Set(names.filter((name, at) => names.indexOf(name) !== at));
  return [...twice].map((name) =>
    finding('warning', 'backends', `two backends have the name "${name}": only one of them is used`),
  );
}
