/** The steps of runs as telemetry sees them: read off the records of the jobs below a run, and of none of their bodies. */
import { AGENT_NAME, TOOL_NAME } from '../model/agent.ts';
import type { AskRecord } from '../model/records.ts';
import type { StepTags } from '../model/run-jobs.ts';

const EVENTS: ReadonlySet<unknown> = new Set([
  'plan',
  'branch',
  'llm_call',
  'tool_call',
  'approval',
  'synthesis',
]);
const ROLES: ReadonlySet<unknown> = new Set(['planner', 'primary', 'fallback', 'repair']);
const isAgent = new RegExp(AGENT_NAME);
const isTool = new RegExp(TOOL_NAME);

export interface RunStep extends StepTags {
  readonly runId: string;
}

/** Undefined for a job that is no step of a run. Any caller may set tags: other values than those of runs are left out. */
export function runStepOf({ ancestors, spec: { tags } }: AskRecord): RunStep | undefined {
  const runId = ancestors?.at(-1);
  if (runId === undefined || tags === undefined || !EVENTS.has(tags['event'])) return undefined;
  const { agent = '', event, model_role: role, tool } = tags as unknown as StepTags;
  if (!isAgent.test(agent)) return undefined;
  return {
    runId,
    agent,
    event,
    ...(role !== undefined && ROLES.has(role) && { model_role: role }),
    ...(tool !== undefined && isTool.test(tool) && { tool }),
  };
}
