/** Other agents as tools: a call is a run of the agent below the run that calls it. */
import type { AgentConfig } from '../../config/agents.ts';
import { AGENT_CATEGORY } from '../../model/run-jobs.ts';
import type { Tool } from './tool.ts';

export interface AgentTool extends Tool {
  readonly agent: string;
  /** The call returns at once, and the run goes on. */
  readonly isBackground: boolean;
}

export const isAgentTool = (tool: Tool | undefined): tool is AgentTool =>
  typeof (tool as AgentTool | undefined)?.agent === 'string';

const PARAMETERS = {
  type: 'object',
  properties: {
    input: {
      type: 'string',
      minLength: 1,
      description: 'The task, with everything that is needed for it: nothing else is known there',
    },
  },
  required: ['input'],
  additionalProperties: false,
};

const IN_BACKGROUND = ' It works in the background: the call returns at once, and the answer is told later.';

export function agentTool(
  { name, description }: Pick<AgentConfig, 'name' | 'description'>,
  isBackground: boolean,
): AgentTool {
  const about = description || `Gives a task to the agent "${name}".`;
  return {
    name,
    agent: name,
    isBackground,
    description: isBackground ? about + IN_BACKGROUND : about,
    parameters: PARAMETERS,
    // What the run does is not known here. Starting one twice begins one run: the call gives it its id.
    effect: isBackground ? 'idempotent' : 'effectful',
    category: AGENT_CATEGORY,
    run: () => {
      throw new Error('a call of an agent is a run of it');
    },
  };
}
