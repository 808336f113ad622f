/** The state of a run before its first step. Pure: replay begins as the run itself has begun. */
import {
  type AgentDefinition,
  DEFAULT_MAX_RUNS,
  DEFAULT_MAX_STEPS,
  type RunRequest,
} from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import { smallerBudget } from './budget.ts';
import { newMessages } from './new-messages.ts';
import { type ChatMessage, newRun, type RunState } from './run-state.ts';

/** `conversation`: the messages of the session so far. Throws INVALID_PARAMS for a request without a question. */
export function beginRun(
  agent: AgentDefinition,
  request: RunRequest,
  conversation: readonly ChatMessage[],
): RunState {
  const given = messagesIn(request);
  const asked = request.repeats_history ? newMessages(conversation, given) : given;
  const budget = smallerBudget(agent.budget, request.budget);
  const run = newRun(withSteps(agent, request.max_steps), asked, conversation, budget);
  const { max_runs: most } = request;
  return most === undefined ? run : { ...run, runsLeft: Math.min(agent.max_runs ?? DEFAULT_MAX_RUNS, most) };
}

/** The agent with at most so many calls of its model. */
export function withSteps(agent: AgentDefinition, most: number | undefined): AgentDefinition {
  return most === undefined
    ? agent
    : { ...agent, max_steps: Math.min(agent.max_steps ?? DEFAULT_MAX_STEPS, most) };
}

export function messagesIn({ input, messages = [] }: RunRequest): readonly ChatMessage[] {
  if (input !== undefined && messages.length > 0)
    throw new OrchdError('INVALID_PARAMS', '"input" and "messages" cannot be given together', {
      field: 'input',
    });
  if (input !== undefined) return [{ role: 'user', content: input }];
  if (messages.length > 0) return messages;
  throw new OrchdError('INVALID_PARAMS', 'a run needs an "input" or "messages"', { field: 'input' });
}
