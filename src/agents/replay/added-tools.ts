/** The tools that a changed agent has and the run that is replayed with it had not. */
import type { AgentConfig } from '../../config/agents.ts';
import { agentToolSet, offerOf, type ToolSources } from '../agent-tools.ts';
import type { ToolOffer } from '../run-state.ts';
import { lastTools } from './decision-input.ts';
import type { RunRecord } from './run-record.ts';

/**
 * The tools of an agent that the run did not have; undefined where there are none. Throws INVALID_PARAMS for tools that
 * the agent cannot have.
 */
export function addedTools(
  config: AgentConfig,
  { agent: recorded, inputs }: RunRecord,
  sources: ToolSources,
): ToolOffer | undefined {
  const known = [...(recorded.tools ?? []), ...lastTools(inputs).map(({ name }) => name)];
  const tools = (config.tools ?? []).filter((name) => !known.includes(name));
  if (tools.length === 0) return undefined;
  const approve = (config.approve ?? []).filter((name) => tools.includes(name));
  return offerOf(agentToolSet({ ...config, tools, approve }, sources), { tools, approve });
}
