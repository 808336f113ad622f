/** The answer to a replay: which agent a run was replayed with, and what differs. */
import type { AgentDefinition } from '../../model/agent.ts';
import type { ReplayView } from '../../model/http/replays.ts';
import type { ToolOffer } from '../run-state.ts';
import type { ReplayAgent } from './decisions.ts';
import type { RunRecords } from './recorded-run.ts';
import { replayRun } from './replay.ts';

/** The agent that a run is replayed with: that of its record, the one of the configuration, or another one. */
export type Against =
  | { readonly is: 'recorded' }
  | { readonly is: 'current'; readonly agent: AgentDefinition; readonly tools: ToolOffer }
  | { readonly is: 'given'; readonly agent: AgentDefinition; readonly others: ToolOffer | undefined };

/** `turn` is awaited between two steps. Throws INVALID_PARAMS for an agent with tools that nobody knows, and RUN_GONE. */
export async function replayReport(
  records: RunRecords,
  against: Against,
  turn?: () => Promise<void>,
): Promise<ReplayView> {
  const { run_id, record } = records.head;
  const { difference, steps, hasEnd } = await replayRun(records, replayAgent(record.agent, against), turn);
  return {
    run_id,
    agent: record.agent.name,
    against: against.is,
    equal: difference === undefined,
    steps,
    has_end: hasEnd,
    ...(difference && { difference }),
  };
}

/** Its name is that of the recorded agent: calls of tools carry it, and another one alone changes nothing. */
function replayAgent(recorded: AgentDefinition, against: Against): ReplayAgent {
  if (against.is === 'recorded') return { agent: recorded };
  const agent = { ...against.agent, name: recorded.name };
  return against.is === 'current' ? { agent, tools: against.tools } : { agent, others: against.others };
}
