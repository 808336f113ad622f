/** The agents of a brain: their definitions and tools, and the backends that run them and call their tools. */
import { FunctionBackend, type FunctionContext } from '../backends/local/functions.ts';
import type { AgentConfig } from '../config/agents.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Backend } from '../core/ports/backend.ts';
import type { Env } from '../kit/env/env.ts';
import { stableHash } from '../kit/hash.ts';
import type { Logger } from '../kit/logger.ts';
import { didYouMean } from '../kit/nearest.ts';
import type { AgentDefinition } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import { APPROVAL_TYPE, RUN_TYPE, TOOL_TYPE } from '../model/run-jobs.ts';
import { agentToolSet, offerOf, type ToolSources } from './agent-tools.ts';
import { awaitApproval } from './approval.ts';
import type { RunOf } from './run.ts';
import { AgentRunner, type RunnerParts } from './runner.ts';
import { argumentsCheck, type ToolArguments } from './tools/arguments.ts';
import { callTool, type ToolResult } from './tools/call.ts';
import type { ToolSet } from './tools/registry.ts';
import type { Tool } from './tools/tool.ts';

/** The names of the backends. */
export const AGENT_BACKENDS = ['agents', 'agent-tools'] as const;

/** Steps that are decided at once: each takes no longer than its reads. */
const RUN_SLOTS = 64;
const TOOL_SLOTS = 64;

export interface AgentsParts extends Pick<RunnerParts, 'onDefect'> {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly agents: ResolvedConfig['agents'];
  readonly folders?: ToolSources['folders'];
  readonly tools?: readonly Tool[];
}

interface KnownAgent {
  readonly definition: AgentDefinition;
  readonly version: string;
  readonly tools: ToolSet;
}

interface ToolPayload {
  readonly agent: string;
  readonly tool: string;
  readonly args: ToolArguments;
}

export class Agents {
  readonly #parts: AgentsParts;
  readonly #agents: ReadonlyMap<string, KnownAgent>;

  /** Throws INVALID_PARAMS for an agent that cannot be used. */
  constructor(parts: AgentsParts) {
    const { env, agents, folders = {}, tools: own = [] } = parts;
    this.#parts = parts;
    this.#agents = knownAgents(agents, { env, folders, own });
  }

  /**
   * The backends for jobs of types RUN_TYPE, TOOL_TYPE and APPROVAL_TYPE, also without agents: a run whose agent was
   * removed from the configuration goes on. `job` reads the jobs below a run.
   */
  backends(job: RunnerParts['job']): readonly Backend[] {
    const { env } = this.#parts;
    const runner = new AgentRunner({
      ...this.#parts,
      job,
      agent: (name) => this.get(name).definition,
      partsOf: (agent) => this.#partsOf(agent),
    });
    const [runs, calls] = AGENT_BACKENDS;
    const call = (payload: ToolPayload, context: FunctionContext) => this.#call(payload, context);
    return [
      new FunctionBackend(env, {
        name: runs,
        slots: RUN_SLOTS,
        repeatable: true,
        types: { [RUN_TYPE]: runner.run, [APPROVAL_TYPE]: awaitApproval },
      }),
      new FunctionBackend(env, { name: calls, slots: TOOL_SLOTS, types: { [TOOL_TYPE]: call } }),
    ];
  }

  list(): readonly { readonly definition: AgentDefinition; readonly version: string }[] {
    return [...this.#agents.values()];
  }

  get(name: string): { readonly definition: AgentDefinition; readonly version: string } {
    const known = this.#agents.get(name);
    if (known) return known;
    const hint = didYouMean(name, [...this.#agents.keys()]);
    throw new OrchdError('NOT_FOUND', `there is no agent "${name.slice(0, 64)}"${hint}`);
  }

  #partsOf(agent: AgentDefinition): Pick<RunOf, 'tools' | 'checkOutput'> {
    const known = this.#agents.get(agent.name);
    // A tool that must be allowed by now must be so in runs that began before, too.
    const approve = [...(agent.approve ?? []), ...(known?.definition.approve ?? [])];
    const { output } = agent;
    return {
      tools: offerOf(known?.tools, { tools: agent.tools ?? [], approve }),
      // The schema is compiled when an answer is checked, not for every step.
      checkOutput: output && ((text) => outputCheck(output)(text)),
    };
  }

  async #call({ agent, tool: name, args }: ToolPayload, context: FunctionContext): Promise<ToolResult> {
    const found = this.#agents.get(agent)?.tools.get(name);
    if (!found)
      return { ok: false, text: 'the agent may no longer use this tool', why: 'failed', started: false };
    const { signal, jobId, tenant } = context;
    return callTool(found.tool, args, { signal, jobId, tenant }, { timers: this.#parts.env.timers });
  }
}

function knownAgents(
  agents: ResolvedConfig['agents'],
  sources: ToolSources,
): ReadonlyMap<string, KnownAgent> {
  const known = new Map<string, KnownAgent>();
  for (const agent of agents as readonly AgentConfig[]) {
    const { files: _files, http: _http, ...definition } = agent;
    if (known.has(agent.name))
      throw new OrchdError('INVALID_PARAMS', `two agents have the name "${agent.name}"`, { field: 'agents' });
    if (definition.output) outputCheck(definition.output);
    known.set(agent.name, {
      definition,
      version: stableHash(definition).slice(0, 12),
      tools: agentToolSet(agent, sources),
    });
  }
  return known;
}

/** Models like to put JSON into a block of code. */
const FENCED = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/;

/** Throws INVALID_PARAMS for a schema that cannot be used. */
function outputCheck(output: Readonly<Record<string, unknown>>): (text: string) => string | undefined {
  const check = argumentsCheck({ name: 'output', parameters: output });
  return (text) => {
    const checked = check(FENCED.exec(text)?.[1] ?? text);
    return checked.ok ? undefined : checked.message;
  };
}
