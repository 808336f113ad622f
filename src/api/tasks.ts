/** The routes of jobs. */
import { Type } from 'typebox';
import { checker } from '../kit/check.ts';
import { OrchdError } from '../model/errors.ts';
import { JOB_ID } from '../model/job-spec.ts';
import { ListRequest, ResolveRequest, SubmitRequest } from '../model/submit.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Caller } from '../runtime/prepare.ts';
import type { SubmitOutcome } from '../runtime/submissions.ts';
import { renderError } from '../wire/render-error.ts';
import type { Answer, Call, Route } from '../wire/route.ts';

const MAX_BULK = 1000;

const Bulk = Type.Array(Type.Unknown(), { minItems: 1, maxItems: MAX_BULK });

const checkBulk = checker(Bulk);
const isJobId = new RegExp(JOB_ID);

export function callerOf(call: Call): Caller {
  const { name, tenant } = call.identity;
  return { tenant, principal: name, submittedBy: name, correlationId: call.correlationId };
}

/** The id in the path; whatever cannot be one does not exist. */
export function jobIdOf(call: Call): string {
  const id = call.params['id'] ?? '';
  if (!isJobId.test(id)) throw new OrchdError('NOT_FOUND', 'there is no such job');
  return id;
}

export function taskRoutes(orchestrator: Orchestrator, newId: () => string): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/v2/tasks',
      role: 'submit',
      summary: 'Submit a job, or up to 1,000 of them as an array with an answer each',
      body: Type.Union([SubmitRequest, Type.Array(SubmitRequest, { minItems: 1, maxItems: MAX_BULK })]),
      answers: {
        202: 'Durable and queued',
        200: 'Answers to an array, in its order',
        422: 'Refused',
        429: 'The queue is full',
      },
      repeatable: ({ body }) => withIds(body, newId),
      handle: (call) =>
        Array.isArray(call.body) ? submitMany(orchestrator, call) : submitOne(orchestrator, call),
    },
    {
      method: 'GET',
      path: '/v2/tasks',
      role: 'read',
      summary: 'List jobs, newest first',
      query: ListRequest,
      answers: { 200: 'A page of jobs; `cursor` leads to the next' },
      handle: async (call) => ({
        status: 200,
        body: await orchestrator.list(listRequest(call.query), call.identity.tenant),
      }),
    },
    {
      method: 'GET',
      path: '/v2/tasks/:id',
      role: 'read',
      summary: 'A job: state, attempts, result, place in the queue, why it waits',
      answers: { 200: 'The job', 404: 'No such job' },
      handle: async (call) => ({
        status: 200,
        body: await orchestrator.get(jobIdOf(call), call.identity.tenant),
      }),
    },
  ];
}

/** What is ordered of a job that is there. */
export function orderRoutes(orchestrator: Orchestrator): readonly Route[] {
  const order =
    (run: (id: string, call: Call) => Promise<unknown>) =>
    async (call: Call): Promise<Answer> => ({
      status: 202,
      body: await run(jobIdOf(call), call),
    });
  return [
    {
      method: 'POST',
      path: '/v2/tasks/:id/cancel',
      role: 'submit',
      summary: 'Cancel a job and its children; repeating it is harmless',
      answers: { 202: 'Cancelled, or on the way', 404: 'No such job' },
      repeatable: ({ body }) => body,
      handle: order((id, call) => orchestrator.cancel(id, call.identity.name, call.identity.tenant)),
    },
    {
      method: 'POST',
      path: '/v2/tasks/:id/redrive',
      role: 'operate',
      summary: 'Give a dead job a new life',
      answers: { 202: 'Queued again', 404: 'No such job', 409: 'It is not dead, or its key is taken' },
      handle: order((id, call) => orchestrator.redrive(id, call.identity.name, call.identity.tenant)),
    },
    {
      method: 'POST',
      path: '/v2/tasks/:id/resolve',
      role: 'operate',
      summary: 'Settle a job whose outcome is unknown',
      body: ResolveRequest,
      answers: { 202: 'Settled', 404: 'No such job', 409: 'Its outcome is not unknown' },
      handle: order((id, call) =>
        orchestrator.resolve(id, call.body as ResolveRequest, call.identity.name, call.identity.tenant),
      ),
    },
  ];
}

/** A job that has an id may be submitted twice. What is no job is left as it is, to be refused. */
function withIds(body: unknown, newId: () => string): unknown {
  if (Array.isArray(body)) return body.map((each) => withIds(each, newId));
  if (typeof body !== 'object' || body === null || 'job_id' in body) return body;
  return { ...body, job_id: newId() };
}

function submitOne(orchestrator: Orchestrator, call: Call): Promise<Answer> {
  if (call.body === undefined) throw new OrchdError('INVALID_PARAMS', 'the request has no body');
  const submitting = orchestrator.submit(call.body as SubmitRequest, callerOf(call));
  return submitting.then((submitted) => ({ status: 202, body: withUrl(submitted) }));
}

async function submitMany(orchestrator: Orchestrator, call: Call): Promise<Answer> {
  const requests = checkBulk(call.body) as SubmitRequest[];
  const outcomes = await orchestrator.submitMany(requests, callerOf(call));
  const answers = outcomes.map((outcome) => {
    if (!(outcome instanceof OrchdError)) return { http_status: 202, ...withUrl(outcome) };
    const { status, body } = renderError(outcome, call.correlationId);
    return { http_status: status, ...body };
  });
  return { status: 200, body: { answers } };
}

const withUrl = (outcome: Exclude<SubmitOutcome, OrchdError>): object => ({
  ...outcome,
  events_url: `/v2/tasks/${outcome.job_id}/events`,
});

/** Queries are text: only the limit is a number. */
function listRequest(query: unknown): ListRequest {
  const fields = { ...(query as Record<string, unknown>) };
  if (typeof fields['limit'] === 'string' && /^\d{1,6}$/.test(fields['limit']))
    fields['limit'] = Number(fields['limit']);
  return fields as ListRequest;
}
