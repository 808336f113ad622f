/** The tools for agents: list them, start a run, wait for it, read it, and answer a call that must be allowed. */
import { Type } from 'typebox';
import { ApprovalQuery, ApproveCall, RUN_ID, type RunView, StartRun } from '../../model/http/runs.ts';
import { requestObject } from '../../model/http/shape.ts';
import { offset, waitMs } from './job-tools.ts';
import { READS, type Tool, ToolFailure, tool } from './tool.ts';
import { shownApproval, shownRun } from './views.ts';
import { DEFAULT_WAIT_MS, readUntil } from './wait.ts';

const runId = Type.String({ pattern: RUN_ID, description: 'The id of the run' });

const listAgents = tool({
  name: 'list_agents',
  title: 'List agents',
  description: 'Lists the agents that can be run, with their models and tools.',
  operation: 'listAgents',
  hints: READS,
  input: requestObject({}),
  call: async (_, { brain }) => ({ agents: await brain.agents() }),
});

const startRun = tool({
  name: 'start_run',
  title: 'Start a run of an agent',
  description:
    'Starts a run of an agent and returns at once with its run_id; the run goes on without you. Give a run_id of your own: starting it again with the same content returns the same run, and never a second one. Then call wait_for_run, now or later.',
  operation: 'startRun',
  hints: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
  input: requestObject({
    agent: Type.String({ minLength: 1, maxLength: 64, description: 'A name that list_agents shows' }),
    ...StartRun.properties,
  }),
  call: async ({ agent, ...given }, { brain, newId, signal }) => {
    const request = { ...given, run_id: given.run_id ?? newId() };
    try {
      const { events_url: _, ...started } = await brain.startRun(agent, request, { signal });
      return { ...started, next: `Call wait_for_run with run_id "${started.run_id}".` };
    } catch (error) {
      throw new ToolFailure(error, { run_id: request.run_id });
    }
  },
});

/** States of a run in which nothing happens until a person has done something, and what that is. */
const WAITS_FOR_A_PERSON: Partial<Record<RunView['state'], string>> = {
  awaiting_approval: 'A call of a tool waits to be allowed: list_approvals shows it to whoever decides.',
  needs_decision:
    'Nobody knows whether a call was made: an operator must decide, with `orchd resolve` for example.',
  paused: 'Somebody has paused the run: it goes on when it is resumed.',
};

const waitForRun = tool({
  name: 'wait_for_run',
  title: 'Wait for a run of an agent',
  description:
    'Waits until a run has ended, or needs a person, for a bounded time, and returns its state and its reply. If `ended` is false, `next` says what to do. Waiting changes nothing, and the run goes on whether or not you wait.',
  operation: 'getRun',
  hints: READS,
  waits: true,
  input: requestObject({ run_id: runId, wait_ms: waitMs, offset }),
  call: async ({ run_id: id, wait_ms: ms = DEFAULT_WAIT_MS, offset: from }, context) => {
    const read = (): Promise<RunView> => context.brain.run(id);
    const isDone = (run: RunView): boolean => hasEnded(run) || WAITS_FOR_A_PERSON[run.state] !== undefined;
    const run = await readUntil(read, { isDone, describe: ({ state }) => state }, ms, context);
    const next =
      WAITS_FOR_A_PERSON[run.state] ??
      `The run has not ended (${run.state}). Call wait_for_run again with run_id "${id}", or get_run later.`;
    return { ...shownRun(run, from), ...(!hasEnded(run) && { next }) };
  },
});

const hasEnded = ({ ended_at: endedAt }: RunView): boolean => endedAt !== undefined;

const getRun = tool({
  name: 'get_run',
  title: 'Get a run of an agent',
  description: 'Shows a run at once: what it does now, its steps, and its reply if it has ended.',
  operation: 'getRun',
  hints: READS,
  input: requestObject({ run_id: runId, offset }),
  call: async ({ run_id: id, offset: from }, { brain }) => shownRun(await brain.run(id), from),
});

const listApprovals = tool({
  name: 'list_approvals',
  title: 'List calls that wait to be allowed',
  description: 'Lists the calls of tools by agents that wait for a person to allow or deny them.',
  operation: 'listApprovals',
  hints: READS,
  input: ApprovalQuery,
  call: async (query, { brain }) => {
    const { approvals, cursor } = await brain.approvalPage(query);
    return { approvals: approvals.map(shownApproval), ...(cursor !== undefined && { cursor }) };
  },
});

const answerApproval = tool({
  name: 'answer_approval',
  title: 'Allow or deny a call of a tool',
  description:
    'Allows or denies a call that list_approvals shows. Only pass on what the person you work for has decided about exactly this call, after seeing its arguments; never decide it yourself.',
  operation: 'approveCall',
  hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  input: requestObject({
    run_id: runId,
    call_id: ApproveCall.properties.call_id,
    approve: ApproveCall.properties.approve,
    hash: Type.String({ minLength: 1, maxLength: 128, description: 'The hash of the call, as it was shown' }),
    why: ApproveCall.properties.why,
  }),
  call: async ({ run_id: id, ...answer }, { brain }) => shownRun(await brain.approve(id, answer)),
});

export const RUN_TOOLS: readonly Tool[] = [
  listAgents,
  startRun,
  waitForRun,
  getRun,
  listApprovals,
  answerApproval,
];
