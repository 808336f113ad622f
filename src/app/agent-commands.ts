/** The commands that agents have as tools: whether this machine can confine them, and where they are run. */
import { tmpdir } from 'node:os';
import type { Agents } from '../agents/agents.ts';
import { COMMAND_BACKEND, type CommandPlace } from '../agents/command-backend.ts';
import type { Sandbox } from '../backends/local/command/sandbox.ts';
import { probeSandbox } from '../backends/local/command/sandbox-probe.ts';
import type { AgentConfig } from '../config/agents.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import { type Disk, diskErrorCode } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { backendFolder } from './node-folders.ts';

/** Looks once for the whole process, and only if an agent has commands; says so in the log if they are not confined. */
export async function commandSandbox(
  { agents }: ResolvedConfig,
  logger: Logger,
): Promise<Sandbox | undefined> {
  const names = (agents as readonly AgentConfig[]).flatMap(({ commands = [] }) =>
    commands.map(({ name }) => name),
  );
  if (names.length === 0) return undefined;
  const sandbox = await probeSandbox(tmpdir());
  if (!sandbox.works)
    logger.warn('commands of agents are not confined: each call of one must be allowed by a person', {
      reason: `${sandbox.why} (${names.join(', ')})`,
    });
  return sandbox;
}

/**
 * Whether the backend for commands is needed: agents have some, or had some in an earlier process, of which one may still
 * run or have ended.
 */
export const runsCommands = async (disk: Disk, agents: Agents, data: string): Promise<boolean> =>
  agents.hasCommands || (await isThere(disk, backendFolder(data, COMMAND_BACKEND)));

/** False too where a file stands in place of the data folder: the store says so when it is opened. */
async function isThere(disk: Disk, folder: string): Promise<boolean> {
  try {
    return (await disk.stat(folder)) !== undefined;
  } catch (error) {
    if (diskErrorCode(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** Where the commands of a brain without a cluster are run; undefined if none are. */
export async function commandPlace(
  disk: Disk,
  agents: Agents,
  data: string,
  isCopy: boolean,
): Promise<CommandPlace | undefined> {
  if (!(await runsCommands(disk, agents, data))) return undefined;
  return { folder: backendFolder(data, COMMAND_BACKEND), isCopy };
}
