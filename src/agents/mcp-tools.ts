/** The tools of MCP servers as agents see them. What a tool is changes while the brain runs, so it is asked for each time. */
import { modelName, namesIn } from '../backends/mcp/definition.ts';
import { MCP_KIND, MCP_LABEL, type PermittedCall } from '../backends/mcp/mcp-backend.ts';
import type { McpServers, PinnedTool } from '../backends/mcp/servers.ts';
import { didYouMean } from '../kit/nearest.ts';
import { OrchdError } from '../model/errors.ts';
import type { ToolFault } from './run-state.ts';
import { plainSchema } from './tools/arguments.ts';
import { linearSchema } from './tools/foreign-schema.ts';
import { type RegisteredTool, ToolSet } from './tools/registry.ts';
import type { Tool } from './tools/tool.ts';

/** The longest description that a model is told. */
const MAX_DESCRIPTION_CHARS = 4000;

export class McpTools {
  readonly servers: McpServers;
  /** By name: the tool of the definition with this hash, or undefined where it cannot be used. */
  readonly #made = new Map<string, { readonly hash: string; readonly tool: RegisteredTool | undefined }>();

  constructor(servers: McpServers) {
    this.servers = servers;
  }

  /** Whether the name is that of a tool of a server. Throws INVALID_PARAMS where it is one of a server that is not there. */
  check(name: string): boolean {
    const names = namesIn(name);
    if (!names) return false;
    const { server, tool } = names;
    const settings = this.servers.settingsOf(server);
    if (!settings) {
      const hint = didYouMean(server, this.servers.names);
      throw new OrchdError(
        'INVALID_PARAMS',
        `the tool "${name}" needs the MCP server "${server}", which is not in "mcp"${hint}`,
        {
          field: 'tools',
        },
      );
    }
    if (settings.allow && !settings.allow.includes(tool))
      throw new OrchdError(
        'INVALID_PARAMS',
        `the MCP server "${server}" has no tool "${tool}" in "allow"${didYouMean(tool, settings.allow)}`,
        { field: 'tools' },
      );
    return true;
  }

  /** The tool by the definition that was allowed; undefined where there is none that can be used. */
  get(name: string): RegisteredTool | undefined {
    const pinned = this.servers.find(name);
    if (!pinned) return undefined;
    const made = this.#made.get(name);
    if (made?.hash === pinned.hash) return made.tool;
    const tool = registeredTool(name, pinned);
    this.#made.set(name, { hash: pinned.hash, tool });
    return tool;
  }

  /** Why the tool is not called now, although it was allowed once. */
  faultOf(name: string): ToolFault | undefined {
    const pinned = this.servers.find(name);
    if (!pinned && this.servers.settingsOf(namesIn(name)?.server ?? ''))
      return { code: 'TOOL_GONE', message: 'the server has not offered this tool so far: go on without it' };
    switch (pinned && this.servers.stateOf(pinned)) {
      case 'changed':
        return {
          code: 'TOOL_CHANGED',
          message: 'the server has changed this tool: it is off until a person allows it again',
        };
      case 'missing':
        return { code: 'TOOL_GONE', message: 'the server no longer offers this tool' };
      default:
        return undefined;
    }
  }

  /** The call by what holds now. Throws INVALID_PARAMS or NOT_FOUND where it may not be made. */
  permit(name: string, args: unknown): PermittedCall {
    const pinned = this.servers.find(name);
    const checked = this.get(name)?.check(JSON.stringify(args));
    if (!pinned || !checked) throw new OrchdError('NOT_FOUND', 'the agent may no longer use this tool');
    if (!checked.ok) throw new OrchdError('INVALID_PARAMS', checked.message);
    return { tool: pinned.definition.name, args: checked.args, hash: pinned.hash };
  }
}

export interface McpTool extends Tool {
  readonly mcpServer: string;
}

export const isMcpTool = (tool: Tool | undefined): tool is McpTool =>
  typeof (tool as McpTool | undefined)?.mcpServer === 'string';

/** Where the jobs of a tool's calls are run. */
export const mcpPlace = ({ mcpServer }: McpTool) => ({
  backend: MCP_KIND,
  labels: { [MCP_LABEL]: mcpServer },
});

function registeredTool(name: string, pinned: PinnedTool): RegisteredTool | undefined {
  const { server, definition, effect, timeoutMs, maxOutputBytes } = pinned;
  if (modelName(server, definition.name) === undefined) return undefined;
  const tool: McpTool = {
    name,
    mcpServer: server,
    description: (definition.description ?? '').slice(0, MAX_DESCRIPTION_CHARS) || definition.name,
    // The check is ours, and must end soon; the model is told the whole schema.
    parameters: linearSchema(definition.inputSchema),
    effect,
    category: 'mcp',
    timeoutMs,
    maxOutputBytes,
    run: () => {
      throw new Error('a tool of an MCP server is called by its backend');
    },
  };
  try {
    const parameters = plainSchema(name, definition.inputSchema);
    const registered = new ToolSet([tool]).get(name);
    if (!registered) return undefined;
    const { definition: told } = registered;
    return { ...registered, definition: { ...told, function: { ...told.function, parameters } } };
  } catch {
    // A schema that cannot be checked: the tool cannot be called.
    return undefined;
  }
}
