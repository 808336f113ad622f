/** The state with which a fork of a run begins: what was said until a step, with another model or other instructions. */
import type { AgentDefinition, RunRequest } from '../../model/agent.ts';
import { OrchdError } from '../../model/errors.ts';
import { withSteps } from '../begin-run.ts';
import { smallerBudget } from '../budget.ts';
import { newRun, type RunState } from '../run-state.ts';
import type { TakenState } from './recorded-run.ts';

/**
 * The agent of a fork: that of its origin, with what the request changes. Its limits are not above those that the agent of
 * the same name has `now`: a fork of an old run must not get around a limit that was lowered since.
 */
export function forkAgent(
  { agent }: TakenState,
  { fork, max_steps: most }: RunRequest,
  now: AgentDefinition | undefined,
): AgentDefinition {
  const budget = smallerBudget(agent.budget, now?.budget);
  return {
    ...withSteps(withSteps(agent, now?.max_steps), most),
    ...(fork?.model !== undefined && { model: fork.model }),
    ...(fork?.instructions !== undefined && { instructions: fork.instructions }),
    ...(budget && { budget }),
  };
}

/**
 * What counts, such as answers, failures and steps, begins anew: the fork is charged for what it calls itself. Calls that
 * the origin has made stay known (`made`): the model has their results. A person who has allowed a call has allowed it to
 * the origin alone, so the fork asks again.
 */
export function forkedRun(taken: TakenState, agent: AgentDefinition, request: RunRequest): RunState {
  const { phase, messages, made, asked, isRepairing, reply, isMerging, checkpoint } = taken;
  const { input, budget } = request;
  if (input !== undefined && phase === 'tool_execution')
    throw new OrchdError(
      'INVALID_PARAMS',
      'the step calls tools, and their results must follow: "input" is possible at a step that asks the model',
      { field: 'input' },
    );
  const added = input === undefined ? [] : [{ role: 'user', content: input } as const];
  return {
    ...newRun(agent, [...messages, ...added], [], smallerBudget(agent.budget, budget)),
    phase,
    made,
    asked: asked.map(({ isApproved: _, runs: __, ...each }) => each),
    isRepairing,
    ...(reply !== undefined && { reply }),
    ...(isMerging && { isMerging }),
    ...(checkpoint && { checkpoint: { at: checkpoint.at } }),
  };
}
