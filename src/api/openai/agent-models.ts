/** The names under which agents are models for clients of OpenAI. */
import type { Agents } from '../../agents/agents.ts';

/** Agents are models of this name and their own. */
const PREFIX = 'agent:';

export const agentModels = (agents: Agents): readonly string[] =>
  agents.list().map(({ definition }) => PREFIX + definition.name);

/** The agent that a model's name stands for; undefined for any other model, also one of a server that is named like it. */
export function agentOf(agents: Agents, model: string): string | undefined {
  return agentModels(agents).includes(model) ? model.slice(PREFIX.length) : undefined;
}
