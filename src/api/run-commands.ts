/** The routes that change a run under way: pause, resume, cancel, and the decision about a call whose outcome is unknown. */
import { isOfRun } from '../agents/run-place.ts';
import { type ReadJob, runView } from '../agents/run-view.ts';
import { OrchdError } from '../model/errors.ts';
import { DecideCall, RunView } from '../model/http/runs.ts';
import { TOOL_TYPE } from '../model/run-jobs.ts';
import type { ResolveRequest } from '../model/submit.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { jobIdOf } from './tasks.ts';

export const runCommandRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  pauseRoute(orchestrator, 'pause'),
  pauseRoute(orchestrator, 'resume'),
  cancelRoute(orchestrator),
  decideRoute(orchestrator),
];

const reader =
  (orchestrator: Orchestrator, { identity: { tenant } }: Call): ReadJob =>
  (id) =>
    orchestrator.get(id, tenant);

/** Throws NOT_FOUND for a job that is no run. */
export const runOf = (orchestrator: Orchestrator, call: Call): Promise<RunView> =>
  runView(jobIdOf(call), reader(orchestrator, call));

const PAUSES = {
  pause: {
    operationId: 'pauseRun',
    summary: 'Pause a run: it starts nothing until it is resumed; repeating it is harmless',
    done: 'It is paused, and that is durable',
  },
  resume: {
    operationId: 'resumeRun',
    summary: 'Resume a paused run; repeating it is harmless',
    done: 'It goes on, and that is durable',
  },
} as const;

function pauseRoute(orchestrator: Orchestrator, order: keyof typeof PAUSES): Route {
  const { operationId, summary, done } = PAUSES[order];
  return route({
    operationId,
    tag: 'agents',
    method: 'POST',
    path: `/v2/runs/:id/${order}`,
    role: 'submit',
    summary,
    logsRefusals: true,
    answers: {
      200: { description: done, body: RunView },
      404: 'No such run',
      409: 'The run has ended',
      507: 'The disk is full',
    },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const { name, tenant } = call.identity;
      await runOf(orchestrator, call);
      await orchestrator.orders[order](jobIdOf(call), name, tenant);
      return { status: 200, body: await runOf(orchestrator, call) };
    },
  });
}

const cancelRoute = (orchestrator: Orchestrator): Route =>
  route({
    operationId: 'cancelRun',
    tag: 'agents',
    method: 'POST',
    path: '/v2/runs/:id/cancel',
    role: 'submit',
    summary: 'Cancel a run and the jobs below it; repeating it is harmless',
    logsRefusals: true,
    answers: { 202: { description: 'Cancelled, or being cancelled', body: RunView }, 404: 'No such run' },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const { name, tenant } = call.identity;
      await runOf(orchestrator, call);
      await orchestrator.orders.cancel(jobIdOf(call), name, tenant);
      return { status: 202, body: await runOf(orchestrator, call) };
    },
  });

const decideRoute = (orchestrator: Orchestrator): Route =>
  route({
    operationId: 'decideCall',
    tag: 'agents',
    method: 'POST',
    path: '/v2/runs/:id/decide',
    role: 'operate',
    summary: 'Settle a call of a run whose outcome is unknown (`needs_decision`); each is settled once',
    logsRefusals: true,
    body: DecideCall,
    answers: {
      200: { description: 'The run', body: RunView },
      404: 'No such run, or no such call of it',
      409: 'The outcome of the call is not unknown: it was settled, or is known by now',
    },
    handle: async (call) => {
      const { name, tenant } = call.identity;
      const { call_id: callId, ...how } = call.body;
      await assertCallOf(orchestrator, call, callId);
      await orchestrator.orders.resolve(callId, requestOf(how), name, tenant, call.bodySize);
      return { status: 200, body: await runOf(orchestrator, call) };
    },
  });

function requestOf({ as, result }: Omit<DecideCall, 'call_id'>): ResolveRequest {
  if (as === 'succeeded') return result === undefined ? { as } : { as, result };
  if (result === undefined) return { as };
  throw new OrchdError('INVALID_PARAMS', '"result" is only for "succeeded"', { field: 'result' });
}

const MODEL_CALL_TYPE = 'inference';

/** The calls of the run, and of those below it. No run that a caller starts has an id that ends as theirs do. */
async function assertCallOf(orchestrator: Orchestrator, call: Call, callId: string): Promise<void> {
  const { run_id: runId } = await runOf(orchestrator, call);
  const job = isOfRun(callId, runId) ? await reader(orchestrator, call)(callId) : undefined;
  if (job?.type !== TOOL_TYPE && job?.type !== MODEL_CALL_TYPE)
    throw new OrchdError('NOT_FOUND', 'the run has no such call');
}
