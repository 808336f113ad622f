/** The routes for the past of runs: replay, the record of a run as a file, and forks. */
import type { Agents } from '../agents/agents.ts';
import { smallerBudget } from '../agents/budget.ts';
import { beginFork } from '../agents/replay/begin-fork.ts';
import { loadRun, type ReadRecorded } from '../agents/replay/load.ts';
import { type Against, replayReport } from '../agents/replay/replay-report.ts';
import type { RunRecord } from '../agents/replay/run-record.ts';
import { savedRun } from '../agents/replay/saved-run.ts';
import { nextTurn } from '../kit/slices.ts';
import type { AgentDefinition, RunRequest } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import { ForkRun, ReplayRun, ReplayView, SavedRun } from '../model/http/replays.ts';
import { StartedRun } from '../model/http/runs.ts';
import { FORK_TAGS, RUN_TYPE } from '../model/run-jobs.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { deadlineBudget, type RunRouteParts, startedRun } from './runs.ts';
import { callerOf, jobIdOf } from './tasks.ts';

interface ReplayParts extends Pick<RunRouteParts, 'orchestrator' | 'agents' | 'env' | 'newId'> {
  readonly currency: string;
}

export const runReplayRoutes = (parts: ReplayParts): readonly Route[] => [
  replayRoute(parts),
  recordRoute(parts),
  forkRoute(parts),
];

function reader(orchestrator: Orchestrator, { identity: { tenant } }: Call): ReadRecorded {
  const known = new Map();
  return (id) => orchestrator.reads.recordedJob(id, tenant, known);
}

const replayRoute = ({ orchestrator, agents, env }: ReplayParts): Route =>
  route({
    operationId: 'replayRun',
    tag: 'agents',
    method: 'POST',
    path: '/v2/runs/:id/replay',
    role: 'submit',
    summary:
      'Run the steps of a run again on what its calls returned, and compare; nothing is called or changed',
    body: ReplayRun,
    answers: {
      200: {
        description: 'Whether the steps ask for the same, and the first that does not',
        body: ReplayView,
      },
      404: 'No such run, or no agent of its name any more',
      409: 'The run has made no step yet',
      410: 'What was said in the run is no longer kept',
    },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const records = await loadRun(reader(orchestrator, call), jobIdOf(call));
      const against = againstOf(agents, records.head.record, call.body.agent as ReplayRun['agent']);
      return { status: 200, body: await replayReport(records, against, () => nextTurn(env.timers)) };
    },
  });

function againstOf(agents: Agents, record: RunRecord, asked: ReplayRun['agent']): Against {
  const { name } = record.agent;
  if (asked === undefined) return { is: 'recorded' };
  if (asked === 'current') {
    const { definition } = agents.get(name);
    return { is: 'current', agent: definition, tools: agents.toolsOf(definition) };
  }
  const agent = { ...(asked as AgentDefinition), name };
  return { is: 'given', agent, others: agents.toolsAddedBy(agent, record) };
}

const recordRoute = ({ orchestrator, env, currency }: ReplayParts): Route =>
  route({
    operationId: 'getRunRecord',
    tag: 'agents',
    method: 'GET',
    path: '/v2/runs/:id/record',
    role: 'read',
    summary: 'The record of a run: everything that a replay of it needs',
    answers: {
      200: { description: 'The run as one value, for `orchd eval`', body: SavedRun },
      404: 'No such run',
      409: 'The run has made no step yet',
      410: 'What was said in the run is no longer kept',
    },
    handle: async (call) => {
      const records = await loadRun(reader(orchestrator, call), jobIdOf(call));
      return { status: 200, body: { currency, ...(await savedRun(records, () => nextTurn(env.timers))) } };
    },
  });

const forkRoute = ({ orchestrator, agents, newId }: ReplayParts): Route =>
  route({
    operationId: 'forkRun',
    tag: 'agents',
    method: 'POST',
    path: '/v2/runs/:id/fork',
    role: 'submit',
    summary: 'Start a run that takes the first steps of another one, and goes on from there in another way',
    logsRefusals: true,
    body: ForkRun,
    answers: {
      202: { description: 'The run is durable and queued', body: StartedRun },
      404: 'No such run',
      409: 'The id was used for something else, or the run has made no step yet',
      410: 'What was said in the run is no longer kept',
      422: 'Refused by admission',
      429: 'The queue is full, or a limit is reached',
      507: 'The disk is full',
    },
    repeatable: ({ body }) => ({ ...(body as ForkRun), run_id: (body as ForkRun).run_id ?? newId() }),
    handle: async (call) => {
      const origin = jobIdOf(call);
      const {
        run_id: runId,
        step,
        model,
        instructions,
        input,
        max_steps: steps,
        budget,
        ...rest
      } = call.body;
      const { priority = 'interactive', tags, ...options } = rest;
      const read = reader(orchestrator, call);
      const { job } = await read(origin);
      const limits = smallerBudget(budget, deadlineBudget(options.deadline_ms));
      const asked: RunRequest = {
        agent: job.agent,
        fork: {
          run: origin,
          step,
          ...(model !== undefined && { model }),
          ...(instructions !== undefined && { instructions }),
        },
        ...(input !== undefined && { input }),
        ...(limits && { budget: limits }),
        ...(steps !== undefined && { max_steps: steps }),
      };
      const { session_id: session } = job;
      // A repeated request finds its run also where the origin is gone by now.
      if (!(await exists(read, runId)))
        await beginFork({ read, agent: (name) => agents.get(name).definition }, asked, session);
      const request = {
        ...options,
        ...(runId !== undefined && { job_id: runId }),
        ...(session !== undefined && { session_id: session, parallel: true }),
        type: RUN_TYPE,
        priority,
        tags: { ...tags, [FORK_TAGS.run]: origin, [FORK_TAGS.step]: String(step) },
        payload: asked,
      };
      return startedRun(await orchestrator.submit(request, callerOf(call)), agents, asked.agent);
    },
  });

async function exists(read: ReadRecorded, id: string | undefined): Promise<boolean> {
  if (id === undefined) return false;
  try {
    await read(id);
    return true;
  } catch (error) {
    if (error instanceof OrchdError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}
