/** The routes of agents and their runs: a run is a job, and its events are those of all its jobs. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Agents } from '../agents/agents.ts';
import { reportRequest } from '../agents/background.ts';
import { messagesIn } from '../agents/begin-run.ts';
import { smallerBudget } from '../agents/budget.ts';
import type { RunEvent } from '../agents/call-events.ts';
import { runEvents } from '../agents/run-events.ts';
import { placeOf } from '../agents/run-place.ts';
import type { Env } from '../kit/env/env.ts';
import type { RunBudget } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import { EventsQuery, type Submitted } from '../model/http/jobs.ts';
import { AgentList, RunView, StartedRun, StartRun } from '../model/http/runs.ts';
import { RUN_TYPE } from '../model/run-jobs.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Caller } from '../runtime/prepare.ts';
import { openEventStream } from '../wire/event-stream.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { type Call, type Route, route, type Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';
import type { OpenStreams } from './open-streams.ts';
import { runCommandRoutes, runOf } from './run-commands.ts';
import { runSources } from './run-sources.ts';
import { callerOf, jobIdOf } from './tasks.ts';

export interface RunRouteParts {
  readonly orchestrator: Orchestrator;
  readonly agents: Agents;
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly openStreams: OpenStreams;
  readonly newId: () => string;
}

const nameOf = ({ params }: Pick<Call, 'params'>): string => params['name'] ?? '';

export const runRoutes = (parts: RunRouteParts): readonly Route[] => [
  agentsRoute(parts),
  startRoute(parts),
  viewRoute(parts),
  eventsRoute(parts),
  ...runCommandRoutes(parts.orchestrator),
];

const agentsRoute = ({ agents }: RunRouteParts): Route =>
  route({
    operationId: 'listAgents',
    tag: 'agents',
    method: 'GET',
    path: '/v2/agents',
    role: 'read',
    summary: 'The agents that can be run',
    answers: { 200: { description: 'All of them', body: AgentList } },
    handle: () => ({
      status: 200,
      body: {
        agents: agents
          .list()
          .map(({ definition: { name, description, model, tools = [] }, version, unconfined }) => ({
            name,
            ...(description !== undefined && { description }),
            model,
            tools,
            ...(unconfined.length > 0 && { unconfined: [...unconfined] }),
            version,
          })),
      },
    }),
  });

const startRoute = ({ orchestrator, agents, newId }: RunRouteParts): Route =>
  route({
    operationId: 'startRun',
    tag: 'agents',
    method: 'POST',
    path: '/v2/agents/:name/runs',
    role: 'submit',
    summary: 'Start a run of an agent',
    body: StartRun,
    answers: {
      202: { description: 'The run is durable and queued', body: StartedRun },
      404: 'No such agent',
      409: 'The id was used for something else',
      422: 'Refused by admission',
      429: 'The queue is full, or a limit is reached',
      507: 'The disk is full',
    },
    repeatable: ({ body }) => ({ ...(body as StartRun), run_id: (body as StartRun).run_id ?? newId() }),
    handle: async (call) => {
      const { definition } = agents.get(nameOf(call));
      const { run_id: runId, input, messages, max_steps: steps, budget, ...more } = call.body;
      const { max_runs: runs, report_to: session, ...rest } = more;
      const { priority = 'interactive', ...options } = rest;
      const limits = smallerBudget(budget, deadlineBudget(options.deadline_ms));
      const asked = {
        agent: definition.name,
        ...(input !== undefined && { input }),
        ...(messages !== undefined && { messages }),
        ...(limits && { budget: limits }),
        ...(steps !== undefined && { max_steps: steps }),
        ...(runs !== undefined && { max_runs: runs }),
      };
      messagesIn(asked);
      const named = runId === undefined ? {} : { job_id: runId };
      const request = { ...options, ...named, type: RUN_TYPE, priority, payload: asked };
      const caller = callerOf(call);
      const submitted = await orchestrator.submit(request, caller);
      if (session !== undefined) await submitReport(orchestrator, submitted.job_id, session, caller);
      return startedRun(submitted, agents, definition.name);
    },
  });

/** A request that is repeated submits both again, which changes nothing. */
async function submitReport(
  orchestrator: Orchestrator,
  run: string,
  session: string,
  { mustBeRunnable: _, models: __, bodySize: ___, ...caller }: Caller,
): Promise<void> {
  await orchestrator.submit(reportRequest(run, session), caller);
}

export function startedRun(
  { job_id: id, duplicate_of: duplicate }: Submitted,
  agents: Agents,
  name: string,
): { readonly status: 202; readonly body: StartedRun } {
  const known = agents.list().find(({ definition }) => definition.name === name);
  return {
    status: 202,
    body: {
      run_id: id,
      agent: name,
      version: known?.version ?? '',
      ...(duplicate !== undefined && { duplicate: true }),
      events_url: `/v2/runs/${id}/events`,
    },
  };
}

/** A run leaves room for a last answer before its deadline. */
export const deadlineBudget = (deadlineMs: number | undefined): RunBudget | undefined =>
  deadlineMs === undefined ? undefined : { wall_ms: deadlineMs };

const viewRoute = ({ orchestrator }: RunRouteParts): Route =>
  route({
    operationId: 'getRun',
    tag: 'agents',
    method: 'GET',
    path: '/v2/runs/:id',
    role: 'read',
    summary: 'A run: what it does now, and how it has ended',
    answers: { 200: { description: 'The run', body: RunView }, 404: 'No such run' },
    handle: async (call) => ({ status: 200, body: await runOf(orchestrator, call) }),
  });

const eventsRoute = (parts: RunRouteParts): Route =>
  route({
    operationId: 'followRun',
    tag: 'agents',
    method: 'GET',
    path: '/v2/runs/:id/events',
    role: 'read',
    summary: 'Follow a run as server-sent events; Last-Event-ID resumes',
    streams: true,
    query: EventsQuery,
    answers: {
      200: {
        description: 'The stream',
        events:
          '`queued`, `paused`, `resumed`, `step` (its kind, and the jobs that it waits for), `token` (what its model says), `reset` (what the call `job_id` has said so far does not count), `tool_result`, `approval` (a call waits to be allowed, or was answered), `needs_decision`, `below` (an event of the run `run_id` below this one), then `end` with its result, or `error`, each with JSON as data',
      },
      204: 'The reader has received the end already',
      404: 'No such run',
      429: 'Too many streams',
    },
    handle: (call) => follow(parts, call, call.query.last_event_id),
  });

async function follow(
  parts: RunRouteParts,
  call: Call,
  afterId: string | undefined,
): Promise<Stream | { status: 204 }> {
  const { orchestrator, openStreams } = parts;
  const { tenant } = call.identity;
  const given = call.headers[LAST_EVENT_ID] ?? afterId;
  if (Array.isArray(given)) throw new OrchdError('INVALID_PARAMS', 'there are two Last-Event-IDs');
  const isAtEnd = given === 'end';
  const after = isAtEnd ? undefined : placeOf(given as string | undefined);
  // Awaited before the stream begins, so that an unknown run is answered with 404 and not inside a stream.
  const { ended_at: endedAt } = await runOf(orchestrator, call);
  if (isAtEnd && endedAt !== undefined) return { status: 204 };
  const stop = new AbortController();
  const { signal } = stop;
  const events = runEvents(runSources({ ...parts, tenant, signal }), jobIdOf(call), after);
  const release = openStreams.take(call.identity);
  const onClose = (): void => {
    release();
    stop.abort();
  };
  return { stream: (request, response) => void write(parts, events, onClose, request, response) };
}

/** Never rejects. A stream that cannot go on is cut off, and the client connects again. */
async function write(
  { env, heartbeatMs }: RunRouteParts,
  events: AsyncGenerator<RunEvent>,
  closed: () => void,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let drained = Promise.withResolvers<void>();
  let isOpen = true;
  const out = openEventStream({
    request,
    response,
    timers: env.timers,
    heartbeatMs,
    onDrain: () => drained.resolve(),
    onClose: () => {
      isOpen = false;
      drained.resolve();
      closed();
    },
  });
  try {
    for await (const { id, event, data } of events) {
      if (!isOpen) return;
      const text = JSON.stringify(data);
      drained = Promise.withResolvers();
      if (!out.write(formatEvent(id === undefined ? { event, data: text } : { id, event, data: text })))
        await drained.promise;
    }
    out.end();
  } catch {
    response.destroy();
  }
}
