/** The agents of a brain: their definitions and tools, and the backends that run them and call their tools. */
import type { OfferedCommand } from '../backends/local/command/options.ts';
import type { Sandbox } from '../backends/local/command/sandbox.ts';
import { FunctionBackend, type FunctionContext } from '../backends/local/functions.ts';
import type { PermittedCall } from '../backends/mcp/mcp-backend.ts';
import type { McpRecordsPort, McpServers } from '../backends/mcp/servers.ts';
import type { AgentConfig } from '../config/agents.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Backend, Offer } from '../core/ports/backend.ts';
import type { Env } from '../kit/env/env.ts';
import { stableHash } from '../kit/hash.ts';
import type { Logger } from '../kit/logger.ts';
import { didYouMean } from '../kit/nearest.ts';
import type { AgentDefinition } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import {
  APPROVAL_TYPE,
  FAILED_TOOL,
  REPORT_TYPE,
  type Report,
  RUN_TYPE,
  TOOL_TYPE,
  type ToolPayload,
  type ToolResult,
} from '../model/run-jobs.ts';
import { checkCalls } from './agent-graph.ts';
import { agentToolSet, offerOf, type ToolSources } from './agent-tools.ts';
import { awaitApproval } from './approval.ts';
import { type BackgroundParts, report, startInBackground } from './background.ts';
import { COMMAND_BACKEND, type CommandPlace, commandBackend } from './command-backend.ts';
import { McpTools } from './mcp-tools.ts';
import { outputCheck } from './output-check.ts';
import { addedTools } from './replay/added-tools.ts';
import type { RunRecord } from './replay/run-record.ts';
import type { RunOf } from './run.ts';
import type { ToolOffer } from './run-state.ts';
import { AgentRunner, type RunnerParts } from './runner.ts';
import { type AgentTool, isAgentTool } from './tools/agent.ts';
import type { ToolArguments } from './tools/arguments.ts';
import { callTool } from './tools/call.ts';
import { isCommandTool } from './tools/command.ts';
import type { ToolSet } from './tools/registry.ts';
import type { Tool } from './tools/tool.ts';

/** The names of the backends. */
export const AGENT_BACKENDS = ['agents', 'agent-tools', COMMAND_BACKEND] as const;

/** Steps that are decided at once: each takes no longer than its reads. */
const RUN_SLOTS = 64;
const TOOL_SLOTS = 64;

export interface AgentsParts {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly agents: ResolvedConfig['agents'];
  readonly folders?: ToolSources['folders'];
  readonly tools?: readonly Tool[];
  /** The verdict of the probe for bubblewrap; without one no command is confined. */
  readonly sandbox?: Sandbox | undefined;
  readonly mcp?: McpServers | undefined;
}

export interface RunReads extends Pick<RunnerParts, 'recorded'>, BackgroundParts {
  /** The records of the tools of MCP servers; needed if there are any. */
  readonly mcp?: McpRecordsPort;
}

const NOT_PROBED: Sandbox = { works: false, why: 'bubblewrap was not looked for' };

interface KnownAgent {
  readonly definition: AgentDefinition;
  readonly version: string;
  readonly tools: ToolSet;
}

export class Agents {
  readonly #parts: AgentsParts;
  readonly #agents: ReadonlyMap<string, KnownAgent>;
  readonly #sources: ToolSources;
  readonly #mcp: McpTools | undefined;

  /** Throws INVALID_PARAMS for an agent that cannot be used. */
  constructor(parts: AgentsParts) {
    const { env, agents, folders = {}, tools: own = [], sandbox = NOT_PROBED } = parts;
    const all = agents as readonly AgentConfig[];
    this.#parts = parts;
    this.#mcp = parts.mcp && new McpTools(parts.mcp);
    this.#sources = { env, folders, own, sandbox, mcp: this.#mcp, agents: all };
    this.#agents = knownAgents(agents, this.#sources);
    checkCalls(all);
  }

  /** The MCP servers; undefined where there are none. */
  get mcp(): McpServers | undefined {
    return this.#mcp?.servers;
  }

  /** Whether an agent may call commands. */
  get hasCommands(): boolean {
    return [...this.#agents.values()].some(({ tools }) => commandsIn(tools).length > 0);
  }

  /**
   * The backends for jobs of the types of runs (model/run-jobs.ts), also without agents: a run whose agent was
   * removed from the configuration goes on. `reads` gives runs what they read. `commands`: where commands are run; needed
   * if there are any.
   */
  backends(reads: RunReads, commands?: CommandPlace): readonly Backend[] {
    const { env } = this.#parts;
    const runner = new AgentRunner({
      ...this.#parts,
      ...reads,
      clock: env.clock,
      agent: (name) => this.get(name).definition,
      partsOf: (agent) => this.#partsOf(agent),
      ready: ({ tools }) => this.#mcp?.servers.ready(tools ?? []),
    });
    const [runs, calls] = AGENT_BACKENDS;
    const call = (payload: ToolPayload, context: FunctionContext) => this.#call(payload, context, reads);
    const tell = (payload: Report, context: FunctionContext) => report(reads, payload, context);
    return [
      new FunctionBackend(env, {
        name: runs,
        slots: RUN_SLOTS,
        repeatable: true,
        types: { [RUN_TYPE]: runner.run, [APPROVAL_TYPE]: awaitApproval, [REPORT_TYPE]: tell },
      }),
      new FunctionBackend(env, { name: calls, slots: TOOL_SLOTS, types: { [TOOL_TYPE]: call } }),
      ...(commands ? [commandBackend(env, commands, (offer, work) => this.#command(offer, work))] : []),
      ...(reads.mcp && this.#mcp
        ? this.#mcp.servers.backends(reads.mcp, (payload) => this.#permitMcp(payload))
        : []),
    ];
  }

  list(): readonly ListedAgent[] {
    return [...this.#agents.values()].map(({ definition, version, tools }) => ({
      definition,
      version,
      unconfined: commandsIn(tools).filter((name) => tools.get(name)?.tool.needsApproval),
    }));
  }

  get(name: string): { readonly definition: AgentDefinition; readonly version: string } {
    const known = this.#agents.get(name);
    if (known) return known;
    const hint = didYouMean(name, [...this.#agents.keys()]);
    throw new OrchdError('NOT_FOUND', `there is no agent "${name.slice(0, 64)}"${hint}`);
  }

  /** The tools of a definition that a run did not have, with the settings that the agent of that name has now. */
  toolsAddedBy(agent: AgentDefinition, record: RunRecord): ToolOffer | undefined {
    const { agents } = this.#parts;
    const settings = (agents as readonly AgentConfig[]).find(({ name }) => name === agent.name);
    return addedTools({ ...settings, ...agent }, record, this.#sources);
  }

  /** The tools that a run of this definition would have now; none where no agent has its name. */
  toolsOf(agent: AgentDefinition): ToolOffer {
    return this.#partsOf(agent).tools;
  }

  #partsOf(agent: AgentDefinition): Pick<RunOf, 'tools' | 'checkOutput'> {
    const known = this.#agents.get(agent.name);
    // A tool that must be allowed by now must be so in runs that began before, too.
    const approve = [...(agent.approve ?? []), ...(known?.definition.approve ?? [])];
    const { output, tools: begun = [] } = agent;
    // What the agent has by now: a right that was taken away since the run began is gone.
    const named = begun.filter((name) => known?.definition.tools?.includes(name));
    return {
      tools: offerOf(known?.tools, { tools: named, approve }, known && this.#mcp),
      // The schema is compiled when an answer is checked, not for every step.
      checkOutput: output && ((text) => outputCheck(output)(text)),
    };
  }

  async #call(
    payload: ToolPayload,
    context: FunctionContext,
    background: BackgroundParts,
  ): Promise<ToolResult> {
    const known = this.#agents.get(payload.agent);
    const found = known?.tools.get(payload.tool);
    // A command of this name may have taken the place of the function since the call was asked for.
    if (!known || !found || isCommandTool(found.tool)) return notMade(TOOL_IS_GONE);
    if (mustBeAllowed(known, payload)) return notMade(MUST_BE_ALLOWED);
    if (isAgentTool(found.tool)) return this.#start(found.tool, payload, context, background);
    const { signal, jobId, tenant } = context;
    const args = payload.args as ToolArguments;
    const limits = { timers: this.#parts.env.timers };
    const result = await callTool(found.tool, args, { signal, jobId, tenant }, limits);
    if (!result.ok) context.label(FAILED_TOOL);
    return result;
  }

  /** A refusal of the run is told to the model; an error that may pass ends the attempt, and the call is made again. */
  async #start(
    { agent, isBackground }: AgentTool,
    payload: ToolPayload,
    context: FunctionContext,
    parts: BackgroundParts,
  ): Promise<ToolResult> {
    if (!isBackground) return notMade(TOOL_IS_GONE);
    try {
      return await startInBackground(parts, agent, payload, context);
    } catch (error) {
      if (!(error instanceof OrchdError) || error.info().retriable) throw error;
      context.label(FAILED_TOOL);
      return notMade(error.message);
    }
  }

  /** Throws an OrchdError for a call of an MCP server's tool that may not be made, by what holds now. */
  #permitMcp(payload: ToolPayload): PermittedCall {
    const known = this.#agents.get(payload.agent);
    if (!known?.definition.tools?.includes(payload.tool) || !this.#mcp)
      throw new OrchdError('NOT_FOUND', TOOL_IS_GONE);
    if (mustBeAllowed(known, payload)) throw new OrchdError('ILLEGAL_STATE', MUST_BE_ALLOWED);
    return this.#mcp.permit(payload.tool, payload.args);
  }

  /** The command of a call. Throws an OrchdError for a call that may not be made, by what holds now. */
  #command({ payloadText }: Offer, work: string): OfferedCommand {
    const payload = JSON.parse(payloadText) as ToolPayload;
    const known = this.#agents.get(payload.agent);
    const found = known?.tools.get(payload.tool);
    if (!known || !isCommandTool(found?.tool)) throw new OrchdError('NOT_FOUND', TOOL_IS_GONE);
    if (mustBeAllowed(known, payload)) throw new OrchdError('ILLEGAL_STATE', MUST_BE_ALLOWED);
    const checked = found.check(JSON.stringify(payload.args));
    if (!checked.ok) throw new OrchdError('INVALID_PARAMS', checked.message);
    return found.tool.commandOf(checked.args, work);
  }
}

export interface ListedAgent {
  readonly definition: AgentDefinition;
  readonly version: string;
  /** Its commands that bubblewrap does not confine, and that are called only with approval. */
  readonly unconfined: readonly string[];
}

const TOOL_IS_GONE = 'the agent may no longer use this tool';
const MUST_BE_ALLOWED = 'by now a person must allow this call: ask for it again';

const notMade = (text: string): ToolResult => ({ ok: false, text, why: 'failed', started: false });

/** Whether the call must be allowed by now, and was made when it did not have to be (K1 of tools/command.ts). */
const mustBeAllowed = ({ definition, tools }: KnownAgent, { tool, approved }: ToolPayload): boolean =>
  approved !== true &&
  (definition.approve?.includes(tool) === true || tools.get(tool)?.tool.needsApproval === true);

const commandsIn = (tools: ToolSet): readonly string[] =>
  tools.names.filter((name) => isCommandTool(tools.get(name)?.tool));

function knownAgents(
  agents: ResolvedConfig['agents'],
  sources: ToolSources,
): ReadonlyMap<string, KnownAgent> {
  const known = new Map<string, KnownAgent>();
  for (const [at, agent] of (agents as readonly AgentConfig[]).entries()) {
    const { files: _files, http: _http, commands: _commands, ...definition } = agent;
    const place = `agents[${at}]`;
    if (known.has(agent.name))
      throw new OrchdError('INVALID_PARAMS', `two agents have the name "${agent.name}"`, { field: place });
    try {
      if (definition.output) outputCheck(definition.output);
      const tools = agentToolSet(agent, sources);
      known.set(agent.name, { definition, version: stableHash(definition).slice(0, 12), tools });
    } catch (error) {
      throw inAgent(error, agent, place);
    }
  }
  return known;
}

/** The same error, with the name of the agent and its place in the configuration. */
function inAgent(error: unknown, agent: AgentConfig, place: string): unknown {
  if (!(error instanceof OrchdError)) return error;
  const { code, message, details } = error;
  const { field } = details;
  const who = `the agent "${agent.name}"`;
  return new OrchdError(code, message.startsWith(who) ? message : `${who}: ${message}`, {
    ...details,
    field: field !== undefined && field in agent ? `${place}.${field}` : place,
  });
}
