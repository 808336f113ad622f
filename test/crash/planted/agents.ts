/** Runs of agents: their tools and what must be allowed. */
import type { PlantedBug } from './catchers.ts';

export const AGENTS_BUGS: readonly PlantedBug[] = [
  {
    name: 'a call with an effect is repeated when its outcome is unknown',
    file: 'src/agents/steps/tool-execution.ts',
    find: "    on_unknown: isEffectful ? 'hold' : 'retry',\n    max_tries: isEffectful ? 1 : 3,\n",
    replace: "    on_unknown: 'retry',\n    max_tries: 3,\n",
    catcher: 'killedRun',
    says: /"send" was called 2 times/,
  },
  {
    name: 'an approval is not bound to the arguments that were shown',
    file: 'src/api/approvals.ts',
    find: 'hash !== undefined && hash !== tags.hash',
    replace: 'hash === undefined && hash !== tags.hash && false',
    catcher: 'approvals',
    says: /✖ is answered once, not for another call or run, and not with another hash/,
  },
  {
    name: 'a call that was denied is made',
    file: 'src/agents/steps/tool-execution.ts',
    find: 'if (isApproval && approvalIn(call)?.approved) {',
    replace: 'if (isApproval && approvalIn(call)) {',
    catcher: 'runs',
    says: /✖ has a call allowed before it is made/,
  },
  {
    name: 'a replay calls a tool',
    file: 'src/agents/agents.ts',
    find: '    return this.#partsOf(agent).tools;\n',
    replace:
      '    const { tools } = this.#partsOf(agent);\n    const check = (name: string, text: string) => {\n      const checked = tools.check(name, text);\n      if (checked?.ok) void this.#agents.get(agent.name)?.tools.get(name)?.tool.run(checked.args as never, {} as never);\n      return checked;\n    };\n    return { ...tools, check };\n',
    catcher: 'replays',
    says: /a replay has called a tool/,
  },
  {
    name: 'a replay asks the model again',
    file: 'src/api/run-replays.ts',
    find: '  return (id) => orchestrator.reads.recordedJob(id, tenant, known);\n',
    replace:
      "  return (id) =>\n    orchestrator.reads.recordedJob(id, tenant, known).then(async (found) => {\n      if (found.job.type === 'inference')\n        await orchestrator.submit({ type: 'inference', model: found.job.model as string, payload: found.job.payload });\n      return found;\n    });\n",
    catcher: 'replays',
    says: /a replay has submitted a job/,
  },
  {
    name: 'a fork takes over what was allowed to its origin',
    file: 'src/agents/replay/fork-state.ts',
    find: 'asked.map(({ isApproved: _, runs: __, ...each }) => each)',
    replace: 'asked',
    catcher: 'forks',
    says: /✖ asks anew for a call that was allowed to its origin/,
  },
  {
    name: 'the definition of a tool that was allowed is compared by its name',
    file: 'src/backends/mcp/definition.ts',
    find: 'hash: stableHash(listed),',
    replace: 'hash: stableHash(name),',
    catcher: 'mcpTools',
    says: /✖ a definition that changes under the connection is not called until it is allowed/,
  },
];
