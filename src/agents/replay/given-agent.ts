/** An agent from a file, for a replay with it: as the configuration has agents, with what its tools may reach. */
import type { AgentConfig } from '../../config/agents.ts';
import { AgentSchema } from '../../config/agents.ts';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { addedTools } from './added-tools.ts';
import type { RunRecords } from './recorded-run.ts';
import type { Against } from './replay-report.ts';

const checkAgent = checker(AgentSchema);

/** The agents of a file: one agent, or a configuration with a list of them. Throws INVALID_PARAMS. */
export function agentsIn(value: unknown): readonly AgentConfig[] {
  const { agents } = (value ?? {}) as { readonly agents?: unknown };
  if (!Array.isArray(agents)) return [checkAgent(value)];
  if (agents.length === 0)
    throw new OrchdError('INVALID_PARAMS', 'the list `agents` is empty', { field: 'agents' });
  return agents.map((agent) => checkAgent(agent));
}

/**
 * The agent of a file that replays a run: the one of its name, or the only one. Undefined where a list has none of that
 * name. Throws INVALID_PARAMS for tools that nobody knows.
 */
export function givenAgent(
  agents: readonly AgentConfig[],
  { head }: RunRecords,
  env: Env,
): Against | undefined {
  const { name: own } = head.record.agent;
  const config = agents.length === 1 ? agents[0] : agents.find(({ name }) => name === own);
  if (!config) return undefined;
  const { files: _files, http: _http, commands: _commands, ...agent } = config;
  // Whether bubblewrap works on the machine of the run is not known here: its commands count as confined.
  const sources = { env, folders: {}, own: [], sandbox: { works: true } as const, mcp: undefined, agents };
  return { is: 'given', agent, others: addedTools(config, head.record, sources) };
}
