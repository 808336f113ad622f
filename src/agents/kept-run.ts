/** The state of a run as its job keeps it over a wait. */
import type { WaitRequest } from '../backends/local/function-wait.ts';
import type { AgentDefinition } from '../model/agent.ts';
import type { RunState } from './run-state.ts';

interface KeptRun extends Omit<RunState, 'agent' | 'inputs'> {
  readonly v: 2;
  /** Absent in states of versions that noted no inputs. */
  readonly inputs?: RunState['inputs'];
  /** One definition, in a list so that it is stored once and not with every step. */
  readonly agents: readonly [AgentDefinition];
}

/** Before version 2: the definition beside the other fields, `system` in `messages`, and the number of equal calls by hash. */
interface KeptRunV1 extends Omit<RunState, 'made' | 'system' | 'heard' | 'inputs'> {
  readonly v: 1;
  readonly made: Readonly<Record<string, number>>;
}

/** The list that begins with the messages of the session. */
export const MESSAGES = 'messages';

export function keptRun({ agent, ...rest }: RunState): Pick<WaitRequest, 'state' | 'growing' | 'continues'> {
  const state: KeptRun = { v: 2, agents: [agent], ...rest };
  return {
    state,
    growing: ['agents', 'system', MESSAGES, 'steps', 'made', 'inputs'],
    continues: { name: MESSAGES, from: rest.heard },
  };
}

export function runIn(state: unknown): RunState {
  const kept = state as KeptRun | KeptRunV1;
  if (kept.v === 1) {
    const { v: _, made, ...rest } = kept;
    const listed = Object.entries(made).flatMap(([hash, times]) => Array<string>(times).fill(hash));
    return { ...rest, system: [], heard: 0, made: listed, inputs: [] };
  }
  const { v: _, agents, inputs = [], ...rest } = kept;
  return { ...rest, agent: agents[0], inputs };
}
