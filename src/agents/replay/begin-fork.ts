/** Begins a fork: a run whose first steps are taken from the records of another one. */
import type { AgentDefinition, RunRequest } from '../../model/agent.ts';
import { OrchdError } from '../../model/errors.ts';
import type { RunState } from '../run-state.ts';
import { takenState } from './fork.ts';
import { forkAgent, forkedRun } from './fork-state.ts';
import { loadRun, type ReadRecorded } from './load.ts';

export interface ForkParts {
  readonly read: ReadRecorded;
  /** The agent of a name as it is now. Throws NOT_FOUND for a name that no agent has. */
  readonly agent: (name: string) => AgentDefinition;
}

/**
 * `session` is that of the fork, which must be the session of its origin: what was said in a session is sealed with its key,
 * and must be gone when the session is deleted. Throws INVALID_PARAMS for a step that the origin has not made, NOT_FOUND
 * and RUN_GONE for an origin that is no longer kept.
 */
export async function beginFork(
  { read, agent }: ForkParts,
  request: RunRequest,
  session: string | undefined,
): Promise<RunState> {
  const { run, step } = request.fork as NonNullable<RunRequest['fork']>;
  const records = await loadRun(read, run);
  const { name } = records.head.record.agent;
  if (request.agent !== name)
    throw new OrchdError('INVALID_PARAMS', `run "${run}" is one of the agent "${name}"`, { field: 'agent' });
  if (records.head.session_id !== session)
    throw new OrchdError('INVALID_PARAMS', `a fork belongs to the session of run "${run}"`, {
      field: 'session_id',
    });
  const taken = await takenState(records, step);
  return forkedRun(taken, forkAgent(taken, request, present(agent, name)), request);
}

/** A run goes on without its agent, and so does a fork of it. */
function present(agent: ForkParts['agent'], name: string): AgentDefinition | undefined {
  try {
    return agent(name);
  } catch (error) {
    if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}
