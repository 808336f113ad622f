/** The tools of one agent: those of its settings, and those of the program that embeds orchd. */
import { resolve } from 'node:path';
import type { Sandbox } from '../backends/local/command/sandbox.ts';
import type { AgentConfig } from '../config/agents.ts';
import type { Env } from '../kit/env/env.ts';
import type { AgentDefinition } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import { isMcpTool, type McpTools, mcpPlace } from './mcp-tools.ts';
import type { ToolOffer } from './run-state.ts';
import { agentTool, isAgentTool } from './tools/agent.ts';
import { DEFAULT_TIMEOUT_MS } from './tools/call.ts';
import { commandTool, isCommandTool } from './tools/command.ts';
import { fileTools } from './tools/files.ts';
import { httpGetTools } from './tools/http-get.ts';
import { machineHealthTool } from './tools/machine.ts';
import { ToolSet } from './tools/registry.ts';
import { currentTimeTool } from './tools/time.ts';
import type { Tool } from './tools/tool.ts';

/** The job of a call has longer than the call, which ends by itself at its timeout; the end of a command takes seconds. */
const TIMEOUT_MARGIN_MS = 15_000;

export interface ToolSources {
  readonly env: Env;
  /** Folders whose free space is told, by name. */
  readonly folders: Readonly<Record<string, string>>;
  /** Tools of the program that embeds orchd, for every agent that names them. */
  readonly own: readonly Tool[];
  /** The verdict of the probe for bubblewrap: whether commands are confined on this machine. */
  readonly sandbox: Sandbox;
  /** The tools of MCP servers, for every agent that names them. */
  readonly mcp: McpTools | undefined;
  /** All agents: each may be a tool of others. */
  readonly agents: readonly Pick<AgentConfig, 'name' | 'description'>[];
}

/** Everything that the agent may name in `tools`. */
function toolsFor(agent: AgentConfig, { env, folders, own, sandbox }: ToolSources): readonly Tool[] {
  const { files, http, commands = [] } = agent;
  const hosts = [
    ...(http?.hosts ?? []).map((host) => ({ host })),
    ...(http?.private_hosts ?? []).map((host) => ({ host, allowPrivate: true })),
  ];
  return [
    currentTimeTool(env.clock),
    machineHealthTool({ disk: env.disk, folders }),
    ...(files
      ? fileTools({ root: resolve(files.root), mayWrite: files.write ?? false, random: env.random })
      : []),
    ...httpGetTools({ timers: env.timers, hosts }),
    ...commands.map((command) => commandTool(command, { sandbox, data: folders['data'] })),
    ...own,
  ];
}

/** The tools that an agent names. Throws INVALID_PARAMS for a name that no tool has. */
export function agentToolSet(agent: AgentConfig, sources: ToolSources): ToolSet {
  const known = new ToolSet(toolsFor(agent, sources));
  const { tools: named = [], background = [] } = agent;
  for (const other of sources.agents) {
    if (!named.includes(other.name)) continue;
    if (known.get(other.name)) throw ambiguous(other.name);
    known.add(agentTool(other, background.includes(other.name)));
  }
  for (const name of background) if (!isAgentTool(known.get(name)?.tool)) throw noBackground(agent, name);
  const own = named.filter((name) => known.get(name) || !sources.mcp?.check(name));
  for (const name of own) if (!known.get(name)) checkSetting(name, agent);
  // Throws for a name that is unknown.
  known.definitions(own);
  checkTwice(named);
  if (agent.tool_choice === 'required' && named.length === 0) {
    const message = `the agent "${agent.name}" must call a tool and has none`;
    throw new OrchdError('INVALID_PARAMS', message, { field: 'tool_choice' });
  }
  for (const name of agent.approve ?? []) {
    if (named.includes(name)) continue;
    const message = `the agent "${agent.name}" has no tool "${name}" that could be approved`;
    throw new OrchdError('INVALID_PARAMS', message, { field: 'approve' });
  }
  return new ToolSet(named.flatMap((name) => known.get(name)?.tool ?? []));
}

const ambiguous = (name: string): OrchdError =>
  new OrchdError(
    'INVALID_PARAMS',
    `"${name}" is the name of a tool and of an agent: give one of them another`,
    {
      field: 'tools',
    },
  );

function noBackground({ name: agent }: AgentConfig, name: string): OrchdError {
  const message = `the agent "${agent}" has no agent "${name}" among its tools that could work in the background`;
  return new OrchdError('INVALID_PARAMS', message, { field: 'background' });
}

function checkTwice(named: readonly string[]): void {
  const twice = named.find((name, at) => named.indexOf(name) !== at);
  if (twice === undefined) return;
  throw new OrchdError('INVALID_PARAMS', `the tool "${twice}" is named twice`, { field: 'tools' });
}

/** Throws for a tool that only an agent with a setting has, which this one lacks: its name alone would look right. */
function checkSetting(name: string, { files }: AgentConfig): void {
  const setting = name === 'http_get' ? 'http.hosts' : FILE_TOOLS.includes(name) ? 'files.root' : undefined;
  const needed = name === 'write_file' && files ? 'files.write: true' : setting;
  if (needed === undefined) return;
  throw new OrchdError('INVALID_PARAMS', `the tool "${name}" needs the setting ${needed} of its agent`, {
    field: 'tools',
  });
}

const FILE_TOOLS: readonly string[] = ['list_files', 'read_file', 'search_files', 'write_file'];

type Approving = Pick<AgentDefinition, 'tools' | 'approve'>;

/**
 * The tools that a run may ask for: those that its agent had when it began, as far as the agent has them still. A right
 * that was taken away since is gone at once.
 */
export function offerOf(
  set: ToolSet | undefined,
  { tools: named = [], approve = [] }: Approving,
  mcp?: McpTools,
): ToolOffer {
  const find = (name: string) => (named.includes(name) ? (set?.get(name) ?? mcp?.get(name)) : undefined);
  const names = named.filter((name) => find(name) && !mcp?.faultOf(name));
  return {
    definitions: names.flatMap((name) => find(name)?.definition ?? []),
    check: (name, text) => find(name)?.check(text),
    effectOf: (name) => find(name)?.tool.effect ?? 'effectful',
    categoryOf: (name) => find(name)?.tool.category ?? 'other',
    timeoutOf: (name) => (find(name)?.tool.timeoutMs ?? DEFAULT_TIMEOUT_MS) + TIMEOUT_MARGIN_MS,
    needsApproval: (name) => approve.includes(name) || find(name)?.tool.needsApproval === true,
    placeOf: (name) => {
      const tool = find(name)?.tool;
      if (isMcpTool(tool)) return mcpPlace(tool);
      return { backend: isCommandTool(tool) ? 'command' : 'function' };
    },
    agentOf: (name) => {
      const tool = find(name)?.tool;
      return isAgentTool(tool) ? { name: tool.agent, isBackground: tool.isBackground } : undefined;
    },
    faultOf: (name) => (named.includes(name) ? mcp?.faultOf(name) : undefined),
    outputBytesOf: (name) => {
      const tool = find(name)?.tool;
      return isCommandTool(tool) ? tool.maxOutputBytes : undefined;
    },
  };
}
