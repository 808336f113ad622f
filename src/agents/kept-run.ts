/** The state of a run as its job keeps it over a wait. */
import type { WaitRequest } from '../backends/local/function-wait.ts';
import type { AgentDefinition } from '../model/agent.ts';
import type { RunState } from './run-state.ts';

interface KeptRun extends Omit<RunState, 'agent'> {
  readonly v: 2;
  /** One definition, in a list so that it is stored once and not with every step. */
  readonly agents: readonly [AgentDefinition];
}

/** Before version 2: the definition beside the other fields, and the number of equal calls by their hash. */
interface KeptRunV1 extends Omit<RunState, 'made'> {
  readonly v: 1;
  readonly made: Readonly<Record<string, number>>;
}

export function keptRun({ agent, ...rest }: RunState): Pick<WaitRequest, 'state' | 'growing'> {
  const state: KeptRun = { v: 2, agents: [agent], ...rest };
  return { state, growing: ['agents', 'messages', 'steps', 'made'] };
}

export function runIn(state: unknown): RunState {
  const kept = state as KeptRun | KeptRunV1;
  if (kept.v === 1) {
    const { v: _, made, ...rest } = kept;
    return { ...rest, made: Object.entries(made).flatMap(([hash, times]) => Array(times).fill(hash)) };
  }
  const { v: _, agents, ...rest } = kept;
  return { ...rest, agent: agents[0] };
}
